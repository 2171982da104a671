// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// program writes a shell script.
func (s secrets) program(name, script string) string {
	s.t.Helper()
	return s.executable(name, "#!/bin/sh\n"+script)
}

// executable writes a file that can be run.
func (s secrets) executable(name, text string) string {
	s.t.Helper()
	path := s.write(name, text)
	if err := os.Chmod(path, 0o700); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func TestCredentialsCommandsAreRejected(t *testing.T) {
	s := secrets{t, t.TempDir()}
	printing := func(text string) string { return "echo '" + text + "'\n" }
	const secret = `{"user": "weir", "password": "secret", "expiry": "2999-01-01T00:00:00Z"}`
	for name, tc := range map[string]struct {
		script, url string
		files       redisclient.Files
		want        string
	}{
		"no JSON":             {printing("secret"), "redis://h", redisclient.Files{}, "want JSON with user, password, and expiry"},
		"no time":             {printing(`{"password": "secret", "expiry": "tomorrow"}`), "redis://h", redisclient.Files{}, "want JSON with user, password, and expiry"},
		"no password":         {printing(`{"user": "weir", "expiry": "2999-01-01T00:00:00Z"}`), "redis://h", redisclient.Files{}, "password: is missing"},
		"no expiry":           {printing(`{"password": "secret"}`), "redis://h", redisclient.Files{}, "expiry: is missing"},
		"expired":             {printing(`{"password": "secret", "expiry": "2020-01-01T00:00:00Z"}`), "redis://h", redisclient.Files{}, "expiry: 2020-01-01T00:00:00Z is past"},
		"too long":            {"yes secret | head -c 100000\n", "redis://h", redisclient.Files{}, "more than 65536 bytes"},
		"fails":               {"echo not signed in >&2; exit 3\n", "redis://h", redisclient.Files{}, "exit status 3: not signed in"},
		"with a user in URL":  {printing(secret), "redis://u:p@h", redisclient.Files{}, "credentials are in both the URL and --redis-credentials-command"},
		"with password files": {printing(secret), "redis://h", redisclient.Files{Password: s.write("word", "x")}, "use one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			command, err := redisclient.NewCredentialsCommand(t.Context(), s.program("command", tc.script), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			if err == nil {
				tc.files.Command = command
				_, err = tc.files.New(tc.url, time.Second)
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
		})
	}
	g := NewWithT(t)
	_, err := redisclient.NewCredentialsCommand(t.Context(), s.path("absent")+" --user weir", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	g.Expect(err).To(MatchError(ContainSubstring("no such file")))
	_, err = redisclient.NewCredentialsCommand(t.Context(), " ", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	g.Expect(err).To(MatchError("names no program"))
}

// While the credentials change every second and a half under load, no command fails, and open connections are
// authenticated again and again.
func TestCredentialsAreRenewed(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	server := testenv.StartRedis(t)
	admin := newClient(t, server.URL, commandTimeout)
	rotating := testenv.NewRotatingCredentials(t, server)
	command, err := redisclient.NewCredentialsCommand(t.Context(), rotating.Command, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	g.Expect(err).NotTo(HaveOccurred())
	files := redisclient.Files{Command: command}
	client, err := files.New(server.URL, commandTimeout)
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = command.Start(ctx) }()

	var load sync.WaitGroup
	var stop atomic.Bool
	defer func() {
		stop.Store(true)
		load.Wait()
		g.Expect(client.Close()).To(Succeed())
	}()
	var done, failed atomic.Int64
	for range 8 {
		load.Go(func() {
			for !stop.Load() {
				if err := client.Incr(ctx, "counter").Err(); err != nil {
					failed.Add(1)
					t.Log(err)
				}
				done.Add(1)
			}
		})
	}
	authentications := func() int { // a new connection uses HELLO
		info := admin.Info(ctx, "commandstats").Val()
		n, _ := strconv.Atoi(regexp.MustCompile(`cmdstat_auth:calls=(\d+)`).FindStringSubmatch(info + "cmdstat_auth:calls=0")[1])
		return n
	}
	g.Eventually(done.Load).Should(BeNumerically(">", 100))
	opened := int(client.PoolStats().TotalConns)
	g.Expect(opened).To(BeNumerically(">", 0))
	g.Eventually(rotating.Runs, "30s").Should(BeNumerically(">=", 5))
	g.Eventually(authentications).Should(BeNumerically(">=", 3*opened), "open connections")
	// A connection that is opened now has the latest password.
	another, err := files.New(server.URL, commandTimeout)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(another.Do(ctx, "ACL", "WHOAMI").Val()).To(Equal("weir"))
	g.Expect(another.Close()).To(Succeed())
	stop.Store(true)
	load.Wait()
	g.Expect(failed.Load()).To(BeZero(), "of %d commands", done.Load())
	g.Expect(client.Get(ctx, "counter").Val()).To(Equal(strconv.FormatInt(done.Load(), 10)))
}

// A command that fails leaves the former credentials in use, and runs again.
func TestFailedRenewalIsRepeated(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	server := testenv.StartRedis(t)
	admin := newClient(t, server.URL, commandTimeout)
	setPassword := func(change ...any) {
		g.Expect(admin.Do(ctx, append([]any{"ACL", "SETUSER", "weir", "on", "~*", "+@all"}, change...)...).Err()).To(Succeed())
	}
	setPassword(">first")
	s := secrets{t, t.TempDir()}
	answer := func(password string, length time.Duration) string {
		return fmt.Sprintf(`{"user": "weir", "password": %q, "expiry": %q}`, password, time.Now().Add(length).Format(time.RFC3339Nano))
	}
	s.write("answer", answer("first", 400*time.Millisecond))
	log := &testenv.Log{}
	command, err := redisclient.NewCredentialsCommand(t.Context(), "/bin/cat "+s.path("answer"), slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry())
	g.Expect(err).NotTo(HaveOccurred())
	client, err := redisclient.Files{Command: command}.New(server.URL, commandTimeout)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close()).To(Succeed()) }()
	g.Expect(os.Remove(s.path("answer"))).To(Succeed())
	go func() { _ = command.Start(ctx) }()
	g.Eventually(log.String).Should(ContainSubstring("Failed to renew the credentials of Redis"))
	g.Expect(log.String()).NotTo(ContainSubstring("first"))
	whoami := func(c redis.UniversalClient) any { return c.Do(ctx, "ACL", "WHOAMI").Val() }
	g.Expect(whoami(client)).To(Equal("weir"))
	setPassword("resetpass", ">second")
	s.write("next", answer("second", time.Hour))
	g.Expect(os.Rename(s.path("next"), s.path("answer"))).To(Succeed())
	g.Eventually(func() any {
		_ = admin.Do(ctx, "CLIENT", "KILL", "USER", "weir").Err()
		return whoami(client)
	}).Should(Equal("weir"))
}
