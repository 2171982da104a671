// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// The texts of Redis 6 have the form of https://github.com/spring-projects/spring-data-redis/issues/3042.
// The others are texts of Redis 7.0 and Valkey 8.0; the test below causes them.
func TestCausesOfTexts(t *testing.T) {
	for text, want := range map[string]store.Cause{
		// Redis 6.2, in a script that catches the error, and in one that does not.
		"@user_script: 12: -READONLY You can't write against a read only replica.":                                                                                     store.CauseReadOnly,
		"@user_script: 12: -OOM command not allowed when used memory > 'maxmemory'.":                                                                                   store.CauseMemory,
		"@user_script: 12: -MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.":                                       store.CausePersistence,
		"ERR Error running script (call to f_5e6d): @user_script:1: @user_script: 12: -READONLY You can't write against a read only replica.":                          store.CauseReadOnly,
		"ERR Error running script (call to f_5e6d): @user_script:1: @user_script: 12: -NOPERM this user has no permissions to run the 'set' command or its subcommand": store.CausePermission,
		"ERR Error running script (call to f_5e6d): @user_script:7: @user_script: 7: Lua redis() command arguments must be strings or integers":                        store.CauseScript,
		"ERR Error running script (call to f_5e6d): @user_script:1: user_script:1: attempt to compare nil with number":                                                 store.CauseScript,
		"WRONGTYPE Operation against a key holding the wrong kind of value -READONLY":                                                                                  store.CauseScript,
		// Redis 7.0 and Valkey 8.0.
		"READONLY You can't write against a read only replica. script: 5e6d, on @user_script:1.":            store.CauseReadOnly,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                  store.CauseLoading,
		"LOADING Redis is loading the dataset in memory":                                                    store.CauseLoading,
		"OOM command not allowed when used memory > 'maxmemory'. script: 5e6d, on @user_script:1.":          store.CauseMemory,
		"NOREPLICAS Not enough good replicas to write. script: 5e6d, on @user_script:1.":                    store.CauseReplicas,
		"NOREPLICAS Not enough good replicas to write.":                                                     store.CauseReplicas,
		"MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.": store.CausePersistence,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":            store.CauseBusy,
		"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":           store.CauseBusy,
		"NOPERM this user has no permissions to run the 'evalsha' command":                                  store.CausePermission,
		"NOPERM User weir has no permissions to run the 'evalsha' command":                                  store.CausePermission,
		"NOAUTH Authentication required.":                                                                   store.CauseAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":                                     store.CauseAuth,
		"ERR Protocol error: unauthenticated multibulk length":                                              store.CauseAuth,
		"ERR max number of clients reached":                                                                 store.CauseClients,
		"NOSCRIPT No matching script. Please use EVAL.":                                                     causeNoScript,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                           store.CauseMoved,
		"CLUSTERDOWN The cluster is down":                                                                   store.CauseCluster,
		"UNKILLABLE Sorry the script already executed write commands against the dataset.":                  store.CauseScript,
		"ERR unknown command 'evalsha'":                                                                     store.CauseScript,
	} {
		NewWithT(t).Expect(causeOfText(text)).To(Equal(want), text)
	}
}

// condition is a state of a server in which it cannot decide.
type condition struct {
	cause    store.Cause
	args     []string // of the server
	user     string   // of the URL of the store
	begin    []string // commands of an administrator, before the store connects
	end      [][]string
	prepare  func(t *testing.T, admin *redis.Client)
	inFlight []string // a command that does not return until the end
}

var conditions = map[string]condition{
	"READONLY":   {cause: store.CauseReadOnly, args: []string{"--replicaof", "127.0.0.1 1"}, end: [][]string{{"REPLICAOF", "NO", "ONE"}}},
	"NOREPLICAS": {cause: store.CauseReplicas, args: []string{"--min-replicas-to-write", "1"}, end: [][]string{{"CONFIG", "SET", "min-replicas-to-write", "0"}}},
	"OOM":        {cause: store.CauseMemory, begin: []string{"CONFIG", "SET", "maxmemory", "1"}, end: [][]string{{"CONFIG", "SET", "maxmemory", "0"}}},
	"MISCONF": {
		cause: store.CausePersistence, args: []string{"--save", "3600 1", "--enable-protected-configs", "yes"}, prepare: failToSave,
		end: [][]string{{"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"}},
	},
	"BUSY": {
		cause: store.CauseBusy, args: []string{"--busy-reply-threshold", "1"}, inFlight: []string{"EVAL", "while true do end", "0"},
		end: [][]string{{"SCRIPT", "KILL"}},
	},
	"NOPERM": {
		cause: store.CausePermission, args: []string{"--user", "weir", "on", ">right", "~*", "&*", "+@all", "-evalsha"}, user: "weir:right@",
		end: [][]string{{"ACL", "SETUSER", "weir", "+@all"}},
	},
	"NOAUTH": {cause: store.CauseAuth, begin: []string{"CONFIG", "SET", "requirepass", "p"}, end: [][]string{{"CONFIG", "SET", "requirepass", ""}}},
	"WRONGPASS": {
		cause: store.CauseAuth, args: []string{"--user", "weir", "on", ">right", "~*", "&*", "+@all"}, user: "weir:wrong@",
		end: [][]string{{"ACL", "SETUSER", "weir", ">wrong"}},
	},
	"maxclients": {cause: store.CauseClients, begin: []string{"CONFIG", "SET", "maxclients", "1"}, end: [][]string{{"CONFIG", "SET", "maxclients", "100"}}},
}

// failToSave makes Redis fail to write its data to disk.
func failToSave(t *testing.T, admin *redis.Client) {
	t.Helper()
	g := NewWithT(t)
	gone := filepath.Join(t.TempDir(), "gone")
	g.Expect(os.Mkdir(gone, 0o700)).To(Succeed())
	g.Expect(admin.ConfigSet(t.Context(), "dir", gone).Err()).To(Succeed())
	g.Expect(os.Remove(gone)).To(Succeed())
	g.Expect(admin.BgSave(t.Context()).Err()).To(Succeed())
	g.Eventually(func() string { return admin.Info(t.Context(), "persistence").Val() }, "30s").Should(ContainSubstring("rdb_last_bgsave_status:err"))
}

func doAll(t *testing.T, client *redis.Client, command []string) error {
	t.Helper()
	args := make([]any, len(command))
	for i, arg := range command {
		args[i] = arg
	}
	return client.Do(t.Context(), args...).Err()
}

// A server that cannot decide has its own cause, opens the breaker, and decides again as soon as
// it can.
func TestConditionsOfServersOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for name, c := range conditions {
			t.Run(s.name+" "+name, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				server := s.start(t, c.args...)
				admin := newClient(t, server.Addr)
				g.Expect(admin.Ping(t.Context()).Err()).To(Succeed(), "connected before the condition begins")
				if c.prepare != nil {
					c.prepare(t, admin)
				}
				if c.begin != nil {
					g.Expect(doAll(t, admin, c.begin)).To(Succeed())
				}
				ended := make(chan struct{})
				if c.inFlight != nil {
					other := newClient(t, server.Addr)
					go func() { defer close(ended); _ = doAll(t, other, c.inFlight) }()
					g.Eventually(func() error { return admin.Ping(t.Context()).Err() }).Should(MatchError(HavePrefix("BUSY ")))
				}
				client, err := redisclient.New("redis://"+c.user+server.Addr, time.Minute)
				g.Expect(err).NotTo(HaveOccurred())
				t.Cleanup(func() { _ = client.Close() })
				backend := NewStore(Options{Client: client, Prefix: testPrefix, Timeout: time.Minute})
				policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
				ask := func() store.Cause {
					_, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
					return causeIn(err)
				}
				_, err = backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
				g.Expect(causeIn(err)).To(Equal(c.cause), "%v", err)
				g.Eventually(ask).Should(Equal(store.CauseBreaker))
				_, err = backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
				failure, _ := errors.AsType[*store.Error](errors.Unwrap(errors.Unwrap(err)))
				g.Expect(failure).To(HaveField("Cause", c.cause), "the breaker names the cause")
				g.Consistently(ask, 3*probePause).Should(Equal(store.CauseBreaker), "probes fail, too")
				for _, command := range c.end {
					g.Expect(doAll(t, admin, command)).To(Succeed())
				}
				if c.inFlight != nil {
					<-ended
				}
				g.Eventually(ask, "30s").Should(BeEmpty())
			})
		}
	}
}
