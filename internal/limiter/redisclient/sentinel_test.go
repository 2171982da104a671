// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// failoverTime is how long a failover may take on a busy machine.
const failoverTime = time.Minute

func increment(ctx context.Context, client redis.UniversalClient) error {
	return client.Incr(ctx, "k").Err()
}

// incrementAndReplicate increments the key and waits until the replica has it.
func incrementAndReplicate(t *testing.T, s *testenv.RedisSentinel, client redis.UniversalClient) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(increment(t.Context(), client)).To(Succeed())
	g.Eventually(func() string { return s.Client(s.Nodes[1]).Get(t.Context(), "k").Val() }).Should(Equal("1"))
}

// expectToReach expects that an increment by the client arrives at the new master. The old one
// accepts writes, which are lost, until the sentinels demote it.
func expectToReach(t *testing.T, client redis.UniversalClient, master *redis.Client, before string) {
	t.Helper()
	NewWithT(t).Eventually(func() (string, error) {
		if err := increment(t.Context(), client); err != nil {
			return "", err
		}
		return master.Get(t.Context(), "k").Result()
	}, failoverTime).ShouldNot(Equal(before), "on the new master")
}

// expectOwnConnections expects that connections of Weir are open only to the given server.
func expectOwnConnections(t *testing.T, s *testenv.RedisSentinel, only *testenv.Redis) {
	t.Helper()
	for _, node := range s.Nodes {
		if node.Pid() != 0 && node != only {
			NewWithT(t).Eventually(func() (string, error) { return s.Client(node).ClientList(t.Context()).Result() }, failoverTime).
				ShouldNot(ContainSubstring("cmd=incr"), "connections to the old master")
		}
	}
}

func TestSentinelClientFollowsFailovers(t *testing.T) {
	t.Parallel()
	for name, failOver := range map[string]func(*testenv.RedisSentinel){
		"on command": (*testenv.RedisSentinel).Failover,
		"after kill -9 of the master": func(s *testenv.RedisSentinel) {
			s.Nodes[0].Stop()
			s.AwaitMaster(s.Nodes[1])
		},
		"of a master that hangs": func(s *testenv.RedisSentinel) {
			s.Nodes[0].Pause()
			s.AwaitMaster(s.Nodes[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
			client := newClient(t, s.URL, time.Second)
			subscription := client.Subscribe(t.Context(), "news")
			defer func() { _ = subscription.Close() }()
			messages := subscription.Channel()
			incrementAndReplicate(t, s, client)

			failOver(s)
			expectToReach(t, client, s.Client(s.Nodes[1]), "1")
			g.Eventually(func() int { // the subscription follows, too
				client.Publish(t.Context(), "news", "x")
				return len(messages)
			}, failoverTime).Should(BeNumerically(">", 0))
			if name == "on command" {
				expectOwnConnections(t, s, s.Nodes[1])
			}
		})
	}
}

// A master that is separated from the sentinels keeps accepting writes, so the connections to
// it must be closed although they work.
func TestSentinelClientLeavesASeparatedMaster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{
		Args: []string{"--user", "sentinel", "on", ">pw", "allchannels", "+@all", "--user", "weir", "on", ">pw", "~*", "&*", "+@all"},
		Config: []string{
			"sentinel auth-user " + testenv.MasterName + " sentinel", "sentinel auth-pass " + testenv.MasterName + " pw",
		},
	})
	client := newClient(t, strings.Replace(s.URL, "://", "://weir:pw@", 1), time.Second)
	incrementAndReplicate(t, s, client)
	old := s.Client(s.Nodes[0])
	s.Must(s.Nodes[0], "ACL", "SETUSER", "default", "resetpass", ">admin") // the test stays connected
	s.Must(s.Nodes[0], "ACL", "SETUSER", "sentinel", "resetpass")
	s.Must(s.Nodes[0], "CLIENT", "KILL", "USER", "sentinel")
	s.AwaitMaster(s.Nodes[1])
	g.Expect(s.Must(s.Nodes[0], "ROLE")).To(ContainElement("master"), "two masters")
	g.Eventually(func() (string, error) { return old.ClientList(t.Context()).Result() }).ShouldNot(ContainSubstring("user=weir"))
	g.Eventually(increment).WithArguments(t.Context(), client).Should(Succeed())
	g.Expect(old.Get(t.Context(), "k").Val()).To(Equal("1"))
	g.Expect(s.Client(s.Nodes[1]).Get(t.Context(), "k").Val()).To(Equal("2"))
}

func TestSentinelClientNeedsOneSentinel(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	client := newClient(t, s.URL, 2*time.Second)
	reconnect := func() error {
		s.Must(s.Nodes[0], "CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
		return increment(t.Context(), client)
	}
	s.Sentinels[0].Stop()
	g.Expect(increment(t.Context(), client)).To(Succeed(), "without the first sentinel")
	s.Sentinels[1].Pause()
	g.Eventually(reconnect).Should(Succeed(), "one sentinel down, one hangs")
	s.Sentinels[2].Stop()
	g.Expect(increment(t.Context(), client)).To(Succeed(), "on the existing connection")
	g.Eventually(reconnect).Should(Succeed(), "a new connection to the last known master")

	fresh := newClient(t, s.URL, 2*time.Second)
	g.Expect(increment(t.Context(), fresh)).To(MatchError(And(
		ContainSubstring("no sentinel names a master"), ContainSubstring("sentinel "+s.Sentinels[0].Addr),
		ContainSubstring("connection refused"))))
	s.Sentinels[0].Start()
	g.Eventually(increment, failoverTime).WithArguments(t.Context(), fresh).Should(Succeed())
}

func TestSentinelClientAcceptsOnlyAMaster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	replica := s.Nodes[1]
	for _, sentinel := range s.Sentinels {
		s.Must(sentinel, "SENTINEL", "MONITOR", "wrong", "127.0.0.1", strings.TrimPrefix(replica.Addr, "127.0.0.1:"), 9)
	}
	url := func(master string) string { return strings.Replace(s.URL, testenv.MasterName, master, 1) }
	err := increment(t.Context(), newClient(t, url("wrong"), time.Second))
	g.Expect(err).To(MatchError(fmt.Sprintf("READONLY the sentinels name %s as master %q, but it is a replica", replica.Addr, "wrong")))
	err = increment(t.Context(), newClient(t, url("unknown"), time.Second))
	g.Expect(err).To(MatchError(ContainSubstring(`sentinel %s knows no master "unknown"`, s.Sentinels[0].Addr)))
}

// The latest configuration counts, even if fewer sentinels have it.
func TestSentinelsDisagree(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	other := testenv.StartRedis(t)
	_, port, _ := strings.Cut(other.Addr, ":")
	for _, stale := range s.Sentinels[1:] {
		s.Must(stale, "SENTINEL", "REMOVE", testenv.MasterName)
		s.Must(stale, "SENTINEL", "MONITOR", testenv.MasterName, "127.0.0.1", port, 1)
	}
	s.Promote()
	client := newClient(t, s.URL, commandTimeout)
	value := func() string { return s.Client(s.Nodes[1]).Get(t.Context(), "k").Val() }
	// A majority of old answers may come first. The next answer moves the connections.
	g.Eventually(func() string { _ = increment(t.Context(), client); return value() }, failoverTime).ShouldNot(BeEmpty())
	s.Sentinels[0].Stop()
	before := value()
	g.Expect(increment(t.Context(), client)).To(Succeed())
	g.Expect(value()).NotTo(Equal(before), "its answer still counts")
}

func TestSentinelURLWithDatabaseAndClose(t *testing.T) {
	t.Parallel()
	testSentinelURLWithDatabaseAndClose(t, testenv.SentinelOptions{})
}

func testSentinelURLWithDatabaseAndClose(t *testing.T, options testenv.SentinelOptions) {
	t.Helper()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, options)
	client, err := redisclient.New(strings.Replace(s.URL, testenv.MasterName, testenv.MasterName+"/3", 1), time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(increment(t.Context(), client)).To(Succeed())
	g.Expect(client.Info(t.Context(), "keyspace").Val()).To(ContainSubstring("db3:keys=1"))
	ownConnections := func() (n int) { // the sentinels name theirs, and the test has one
		list := s.Must(s.Sentinels[0], "CLIENT", "LIST").(string)
		return strings.Count(list, " name= ") - 1
	}
	g.Eventually(ownConnections).Should(BeNumerically(">", 0), "the client watches the sentinels")
	g.Expect(client.Close()).To(Succeed())
	g.Eventually(ownConnections).Should(BeZero())
}

func TestSentinelCredentialsMayChange(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	set := func(user, password string, servers ...*testenv.Redis) {
		for _, server := range servers {
			s.Must(server, "ACL", "SETUSER", user, "reset", "on", ">"+password, "~*", "&*", "+@all", "-@admin", "-@dangerous")
			s.Must(server, "CLIENT", "KILL", "USER", user)
		}
	}
	folder := secrets{t, t.TempDir()}
	files := redisclient.Files{
		Username: folder.write("username", "weir\n"), Password: folder.write("password", "data1\n"),
		SentinelUsername: folder.write("sentinel-username", "watcher\n"), SentinelPassword: folder.write("sentinel-password", "wrong\n"),
	}
	set("weir", "data1", s.Nodes...)
	allow := func(password string) {
		for _, sentinel := range s.Sentinels {
			s.Must(sentinel, "ACL", "SETUSER", "watcher", "reset", "on", ">"+password, "&+switch-master", "-@all",
				"+auth", "+hello", "+ping", "+subscribe", "+sentinel|master", "+sentinel|get-master-addr-by-name")
			s.Must(sentinel, "ACL", "SETUSER", "default", "resetpass", ">admin") // no access without the password
			s.Must(sentinel, "CLIENT", "KILL", "USER", "watcher")
		}
	}
	allow("sentinel1")
	client, err := files.New(s.URL, commandTimeout)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()
	whoAmI := func() (string, error) { return client.Do(t.Context(), "ACL", "WHOAMI").Text() }
	_, err = whoAmI()
	g.Expect(err).To(MatchError(And(ContainSubstring("sentinel "+s.Sentinels[0].Addr), ContainSubstring("WRONGPASS"))))

	folder.write("sentinel-password", "sentinel1\n")
	g.Eventually(whoAmI).Should(Equal("weir"))

	// Both passwords change. New connections use the new ones, to the old master and to the new.
	set("weir", "data2", s.Nodes...)
	allow("sentinel2")
	folder.write("password", "data2\n")
	folder.write("sentinel-password", "sentinel2\n")
	g.Eventually(whoAmI).Should(Equal("weir"))
	s.Failover()
	expectToReach(t, client, s.Client(s.Nodes[1]), "")
	g.Eventually(func() any { return s.Must(s.Sentinels[0], "CLIENT", "LIST") }, failoverTime).Should(ContainSubstring("user=watcher"))
}

func TestSentinelWithTLSAndServerName(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := secrets{t, t.TempDir()}
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(t, "redis", "redis.example") // not the address
	ca := folder.write("ca.crt", string(authority.PEM))
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{
		Cert: folder.write("tls.crt", string(cert)), Key: folder.write("tls.key", string(key)), CA: ca,
	})
	g.Expect(s.URL).To(HavePrefix("rediss-sentinel://"))
	clientCert, clientKey := folder.issue(authority, "client")
	connect := func(serverName string) redis.UniversalClient {
		client, err := redisclient.Files{CA: ca, Cert: clientCert, Key: clientKey, ServerName: serverName}.New(s.URL, commandTimeout)
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	g.Expect(increment(t.Context(), connect(""))).To(MatchError(ContainSubstring("127.0.0.1")), "the certificate has no address")
	g.Expect(increment(t.Context(), connect("other.example"))).To(MatchError(ContainSubstring("other.example")))
	client := connect("redis.example")
	incrementAndReplicate(t, s, client)
	s.Failover()
	expectToReach(t, client, s.Client(s.Nodes[1]), "1")
}

// Connections that a client opens at the same time share a question to the sentinels. If each asked, a thousand clients that connect
// again after a failover would keep the sentinels busy for half a minute.
func TestConnectionsShareAQuestionToTheSentinels(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	questions := func() (n int) { // each is a connection
		for line := range strings.Lines(s.Must(s.Sentinels[0], "INFO", "stats").(string)) {
			_, _ = fmt.Sscanf(line, "total_connections_received:%d", &n)
		}
		return n
	}
	client := newClient(t, s.URL+"&pool_size=100", 10*time.Second)
	before, start := questions(), time.Now()
	var running sync.WaitGroup
	for range 100 {
		running.Go(func() { g.Expect(client.BLPop(t.Context(), time.Second, "none").Err()).To(MatchError(redis.Nil)) })
	}
	running.Wait()
	g.Expect(client.PoolStats().TotalConns).To(BeNumerically(">=", 80))
	seconds := int(time.Since(start).Seconds()) + 1
	g.Expect(questions() - before).To(And(BeNumerically(">", 0), BeNumerically("<=", 10*seconds)))
}
