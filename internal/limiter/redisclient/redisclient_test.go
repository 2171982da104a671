// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

func TestNewRejectsURL(t *testing.T) {
	for url, want := range map[string]string{
		"":                               `scheme "": want redis://, redis-cluster:// or redis-sentinel://, or with TLS rediss://`,
		"http://localhost":               `scheme "http": want redis://`,
		"redis://u:secret@\x7f":          "not a URL",
		"redis://u:secret@h:6379/many":   "redis://u:xxxxx@h:6379/many",
		"redis://h:6379?password=secret": "redis://h:6379: redis: unexpected option: password",

		"redis://:1#secret@h:6379":             "in user and password write %25 for %",
		"redis://:1/secret@h:6379":             "in user and password write %25 for %",
		"redis://:secret?secret@h:6379":        "in user and password write %25 for %",
		"redis://u:secret%@h:6379":             "in user and password write %25 for %",
		"redis-cluster://u:secret#1@h:6379":    "in user and password write %25 for %",
		"rediss-sentinel://u:1/secret@h/m/0":   "in user and password write %25 for %",
		"redis://u:1#secret@h:6379?addr=h2:12": "in user and password write %25 for %",

		"redis-sentinel://u:secret@h":                 "redis-sentinel://u:xxxxx@h: want the name of the master after the address",
		"redis-sentinel:///master":                    "want the address of a sentinel",
		"redis-sentinel://h/master/db":                "redis-sentinel://h/master/db: redis: invalid database number",
		"redis-sentinel://h/master?addr=secret":       "redis-sentinel://h/master: addr: want host:port",
		"redis-sentinel://h/master?addr=u:secret@h:1": "redis-sentinel://h/master: addr: want host:port",
		"rediss-sentinel://h/master?password=secret":  "rediss-sentinel://h/master: redis: unexpected option: password",

		"redis-cluster://u:secret@h:6379/1":             "redis-cluster://u:xxxxx@h:6379/1: a cluster has no numbered databases",
		"redis-cluster://u:secret@h?addr=h2":            "redis-cluster://u:xxxxx@h: addr: want host:port",
		"redis-cluster://h:1?addr=u:secret@h2:6379":     "redis-cluster://h:1: addr: want host:port",
		"redis-cluster://h:1?addr=h2:2&addr=secret@h:3": "redis-cluster://h:1: addr: want host:port",
		"rediss-cluster://h:1?password=secret":          "rediss-cluster://h:1: redis: unexpected option: password",
	} {
		t.Run(url, func(t *testing.T) {
			g := NewWithT(t)
			_, err := redisclient.New(url, time.Second)
			g.Expect(err).To(MatchError(ContainSubstring(want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
		})
	}
}

// However often Redis could not be reached, the first command after its return reaches it.
func TestClientReconnectsAtOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	client := newClient(t, server.URL, commandTimeout)
	server.Stop()
	for range 100 { // more than the pool has connections
		g.Expect(client.Ping(t.Context()).Err()).To(MatchError(syscall.ECONNREFUSED))
	}
	server.Start()
	g.Expect(client.Ping(t.Context()).Err()).To(Succeed())
}

func TestNewConnectsWithUserPasswordAndDatabase(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t, "--requirepass", "s3cret")
	client, err := redisclient.New("redis://default:s3cret@"+server.Addr+"/3", time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close()).To(Succeed()) }()
	g.Expect(client.Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
	g.Expect(client.Info(t.Context(), "keyspace").Val()).To(ContainSubstring("db3:keys=1"))
}

// A URL cannot change the options that New fixes.
func TestClusterURLCannotChangeFixedOptions(t *testing.T) {
	g := NewWithT(t)
	const parameters = "&max_redirects=9&max_retries=9&read_only=true&route_randomly=true&route_by_latency=true&pool_size=7"
	client, err := redisclient.New("rediss-cluster://u:p@h:1?addr=h2:2"+parameters, time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close()).To(Succeed()) }()
	options := client.(*redis.ClusterClient).Options()
	g.Expect(options.Addrs).To(Equal([]string{"h:1", "h2:2"}))
	g.Expect(options.TLSConfig.ServerName).To(Equal("h"))
	g.Expect(options.PoolSize).To(Equal(7))
	g.Expect(options.MaxRedirects).To(Equal(3))
	g.Expect(options.MaxRetries).To(Equal(-1))
	g.Expect(options.ReadOnly || options.RouteRandomly || options.RouteByLatency).To(BeFalse())
}
