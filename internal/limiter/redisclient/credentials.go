// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9/auth"
)

const (
	// commandTimeout bounds one run of a credentials command, maxCommandOutput its output in bytes, and
	// maxCommandError the part of its errors that is logged.
	commandTimeout   = 10 * time.Second
	maxCommandOutput = 64 << 10
	maxCommandError  = 500
	// refreshShare is the part of the lifetime of credentials after which the command runs again.
	refreshShare = 0.75
	// firstRetry is the pause after a run that failed; it doubles up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// CredentialsCommand is a program that prints credentials which expire, such as a token of a cloud's IAM, as JSON:
//
//	{"user": "weir", "password": "...", "expiry": "2026-12-01T06:15:00Z"}
//
// It runs again after three quarters of the time until the expiry. All connections, also those that are open, are then
// authenticated by the new credentials. If it fails, the former credentials stay in use, also after their expiry, and it runs
// again after a pause. One CredentialsCommand serves all clients of a process.
type CredentialsCommand struct {
	args    []string
	logger  *slog.Logger
	expires prometheus.Gauge

	mu        sync.Mutex
	latest    *credentials
	listeners map[auth.CredentialsListener]struct{}
}

// NewCredentialsCommand runs the command for the first time: a program and its arguments, separated by spaces. No shell
// interprets it. The registerer gets the metric of the expiry.
func NewCredentialsCommand(ctx context.Context, line string, logger *slog.Logger, r prometheus.Registerer) (*CredentialsCommand, error) {
	args := strings.Fields(line)
	if len(args) == 0 {
		return nil, errors.New("names no program")
	}
	c := &CredentialsCommand{
		args: args, logger: logger, listeners: map[auth.CredentialsListener]struct{}{},
		expires: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_credentials_expiry_timestamp_seconds",
			Help: "Expiry of the credentials of Redis, in Unix time.",
		}),
	}
	first, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	r.MustRegister(c.expires)
	c.replace(first)
	return c, nil
}

// credentials are what the command printed.
type credentials struct {
	user, password  string
	printed, expiry time.Time
}

// refresh returns when the command runs again.
func (c *credentials) refresh() time.Time {
	return c.printed.Add(time.Duration(refreshShare * float64(c.expiry.Sub(c.printed))))
}

// Start runs the command again and again until ctx ends.
func (c *CredentialsCommand) Start(ctx context.Context) error {
	retry := firstRetry
	timer := time.NewTimer(time.Until(c.current().refresh()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		latest, err := c.run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			c.logger.Error("Failed to renew the credentials of Redis", "error", err, "expiry", c.current().expiry)
			timer.Reset(retry)
			retry = min(2*retry, lastRetry)
		default:
			c.replace(latest)
			retry = firstRetry
			timer.Reset(time.Until(latest.refresh()))
		}
	}
}

// Subscribe implements auth.StreamingCredentialsProvider, for each new connection.
func (c *CredentialsCommand) Subscribe(listener auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[listener] = struct{}{}
	unsubscribe := func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, listener)
		return nil
	}
	return auth.NewBasicCredentials(c.latest.user, c.latest.password), unsubscribe, nil
}

func (c *CredentialsCommand) current() *credentials {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// replace authenticates all connections by the new credentials.
func (c *CredentialsCommand) replace(latest *credentials) {
	c.expires.Set(float64(latest.expiry.Unix()))
	c.mu.Lock()
	c.latest = latest
	listeners := slices.Collect(maps.Keys(c.listeners))
	c.mu.Unlock()
	// A connection that fails to authenticate closes, and unsubscribes.
	for _, l := range listeners {
		l.OnNext(auth.NewBasicCredentials(latest.user, latest.password))
	}
}

// run runs the command once. Errors contain its standard error, never its output.
func (c *CredentialsCommand) run(ctx context.Context) (*credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the flag of the operator
	var output, failure limitedBuffer
	output.limit, failure.limit = maxCommandOutput+1, maxCommandError
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &failure, time.Second
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: no answer within %v", c.args[0], commandTimeout)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", c.args[0], err, strings.TrimSpace(failure.String()))
	}
	found, err := parseCredentials(output.Bytes(), time.Now()) //nolint:forbidigo // the age of credentials
	if err != nil {
		return nil, fmt.Errorf("%s: output: %w", c.args[0], err)
	}
	return found, nil
}

// parseCredentials parses what a command has printed. Unknown members are ignored.
func parseCredentials(output []byte, now time.Time) (*credentials, error) {
	if len(output) > maxCommandOutput {
		return nil, fmt.Errorf("more than %d bytes", maxCommandOutput)
	}
	var parsed struct {
		User, Password string
		Expiry         *time.Time
	}
	switch err := json.Unmarshal(output, &parsed); {
	case err != nil:
		return nil, errors.New("want JSON with user, password, and expiry as 2006-01-02T15:04:05Z")
	case parsed.Password == "":
		return nil, errors.New("password: is missing")
	case parsed.Expiry == nil:
		return nil, errors.New("expiry: is missing")
	case !parsed.Expiry.After(now):
		return nil, fmt.Errorf("expiry: %s is past", parsed.Expiry.Format(time.RFC3339))
	}
	return &credentials{user: parsed.User, password: parsed.Password, printed: now, expiry: *parsed.Expiry}, nil
}

// limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct {
	bytes.Buffer

	limit int
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if rest := b.limit - b.Len(); rest > 0 {
		_, _ = b.Buffer.Write(p[:min(rest, len(p))])
	}
	return len(p), nil
}
