// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialTimeout bounds one attempt to connect. It may be longer than the time of a decision,
// because connecting continues in the background after the decision fails.
const dialTimeout = 2 * time.Second

func init() {
	// The library writes dial errors to standard error. The decisions and watchers that
	// fail log them too, with a rate limit.
	logging.Disable()
}

// New returns a client for a URL of one of these forms; rediss in place of redis uses TLS:
//
//	redis://[user:password@]host[:port][/database]
//	redis-cluster://[user:password@]host[:port][?addr=host:port&addr=...]
//	redis-sentinel://[user:password@]host[:port]/master[/database][?addr=host:port&addr=...]
//
// Files.New adds credentials and certificates that must not be part of a URL.
//
//   - New does not connect: Redis may be unavailable.
//   - Every command is bounded by its context and by timeout.
//   - The client never sends a command twice, because a command whose reply was lost may
//     have run. It sends a command again only if a node of a cluster reports that it did
//     not run it, because another node owns the slot (MOVED, ASK) or because it is a
//     replica (READONLY). The caller handles all other replies and failures.
//   - One address that answers is enough to find all nodes of a cluster. With TLS every
//     node needs a certificate for the host of the URL, or for Files.ServerName.
//   - A URL of sentinels should name all of them. User and password belong to the data
//     nodes. With TLS every sentinel and data node needs a certificate for the host that
//     the URL or the sentinels name, or for Files.ServerName.
//   - No error contains a text of the server, which may quote keys of clients: see HideReplies.
//   - After a READONLY reply all connections are closed, so that the next commands find the
//     new master.
func New(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	return Files{}.New(rawURL, timeout)
}

func newSingle(parsed *url.URL, timeout time.Duration, files Files) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(parsed.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redacted(parsed), err)
	}
	connections := newConnections(files, options.TLSConfig)
	overwrite(options, fixedOptions(files, connections.dial, timeout))
	client := redis.NewClient(options)
	client.AddHook(dropReadOnly{connections})
	HideReplies(client)
	return client, nil
}

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// fixedOptions returns the options that a URL cannot change, for every kind of client.
func fixedOptions(files Files, dial dialFunc, timeout time.Duration) *redis.UniversalOptions {
	options := &redis.UniversalOptions{
		CredentialsProviderContext: files.credentialsProvider(),
		Dialer:                     withLateErrors(dial),
		MaxRetries:                 -1,
		DialerRetries:              1,
		DialTimeout:                dialTimeout,
		ContextTimeoutEnabled:      true,
		ReadTimeout:                timeout,
		WriteTimeout:               timeout,
		Protocol:                   2,
		DisableIdentity:            true,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if files.Command != nil {
		options.StreamingCredentialsProvider = files.Command
	}
	return options
}

// overwrite sets the fields of options, a *redis.Options or *redis.ClusterOptions, to the
// fields of fixed with the same name, unless those are zero.
func overwrite(options any, fixed *redis.UniversalOptions) {
	target, source := reflect.ValueOf(options).Elem(), reflect.ValueOf(fixed).Elem()
	for i := range source.NumField() {
		if value := source.Field(i); !value.IsZero() {
			target.FieldByName(source.Type().Field(i).Name).Set(value)
		}
	}
}

// checkAddresses returns an error unless each address is host:port.
func checkAddresses(addrs []string) error {
	for _, addr := range addrs {
		// The error must not repeat the address, which may contain a password.
		if _, _, err := net.SplitHostPort(addr); err != nil || strings.Contains(addr, "@") {
			return errors.New("addr: want host:port")
		}
	}
	return nil
}

// redacted returns the URL without password and query.
func redacted(u *url.URL) string {
	public := *u
	public.RawQuery = ""
	return public.Redacted()
}
