// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// MasterName is the name under which the sentinels watch the master.
	MasterName = "weir-master"

	sentinelNodes = 3
	quorum        = 2

	// downAfter is how long a master may be silent before a sentinel considers it down. A
	// shorter time would report outages on a busy machine.
	downAfter = time.Second
)

// SentinelOptions configure a RedisSentinel. The zero value is two data nodes without TLS.
type SentinelOptions struct {
	// Valkey runs valkey-server instead of redis-server.
	Valkey bool
	// Args go to every data node.
	Args []string
	// Config are further lines of the configuration of every sentinel.
	Config []string
	// Partitionable puts a proxy between the first master and all others: the replica, the sentinels
	// and the clients that ask them.
	Partitionable bool
	// Cert, Key and CA are the files of the certificate that every server uses, for TLS.
	Cert, Key, CA string
}

// RedisSentinel is a master with one replica, watched by three sentinels, for one test.
type RedisSentinel struct {
	// Nodes are the data nodes. The first one is the master at the start.
	Nodes []*Redis

	// Sentinels are the sentinels.
	Sentinels []*Redis

	// Proxy is the proxy in front of the first master of a Partitionable RedisSentinel.
	Proxy *Proxy

	// URL is the redis-sentinel:// or rediss-sentinel:// URL that names all sentinels.
	URL string

	tb      testing.TB
	options SentinelOptions
	clients map[*Redis]*redis.Client
}

// StartRedisSentinel starts the servers, waits until the sentinels know each other and the
// replica, and stops them when the test ends.
func StartRedisSentinel(tb testing.TB, o SentinelOptions) *RedisSentinel {
	tb.Helper()
	s := &RedisSentinel{tb: tb, options: o, clients: map[*Redis]*redis.Client{}}
	master := s.startNode(o.Args)
	s.Nodes = []*Redis{master}
	if o.Partitionable {
		s.Proxy = StartProxy(tb, s.Address(master))
	}
	replica := s.startNode(append(slices.Clone(o.Args), "--replicaof", hostOf(master.Addr)+" "+portOf(s.Address(master))))
	s.Nodes = append(s.Nodes, replica)
	await(tb, "the replica", func() error {
		return s.expectInfo(master, "replication", "state=online", "connected_slaves:1")
	})
	for range sentinelNodes {
		s.Sentinels = append(s.Sentinels, s.startSentinel())
	}
	await(tb, "the sentinels", func() error {
		for _, sentinel := range s.Sentinels {
			known := fmt.Sprintf("status=ok,address=%s,slaves=1,sentinels=%d", s.Address(master), sentinelNodes)
			if err := s.expectInfo(sentinel, "sentinel", known); err != nil {
				return err
			}
		}
		return nil
	})
	s.URL = s.url()
	return s
}

func (s *RedisSentinel) program() string {
	if s.options.Valkey {
		return valkeyServer
	}
	return redisServer
}

// startNode starts one data node.
func (s *RedisSentinel) startNode(args []string) *Redis {
	s.tb.Helper()
	node := &Redis{tb: s.tb, program: s.program(), args: append(slices.Clone(args), "--repl-diskless-sync-delay", "0")}
	s.addTLS(node)
	node.launch(false)
	s.clients[node] = newNodeClient(s.tb, node)
	return node
}

// startSentinel starts one sentinel of the master.
func (s *RedisSentinel) startSentinel() *Redis {
	s.tb.Helper()
	master := s.Nodes[0]
	lines := append([]string{
		fmt.Sprintf("sentinel monitor %s %s %s %d", MasterName, hostOf(master.Addr), portOf(s.Address(master)), quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, 5*downAfter.Milliseconds()),
	}, s.options.Config...)
	config := filepath.Join(s.tb.TempDir(), "sentinel.conf") // the sentinel rewrites it
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	sentinel := &Redis{tb: s.tb, program: s.program(), config: config}
	s.addTLS(sentinel)
	sentinel.launch(false)
	s.clients[sentinel] = newNodeClient(s.tb, sentinel)
	// By default they inform each other every two seconds and ask the data nodes every ten. After
	// four publish periods they demote a master that they do not expect, and the leader of a
	// failover needs one second to see the promotion.
	s.Must(sentinel, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", 500, "INFO-PERIOD", 100)
	return sentinel
}

// addTLS makes the server also listen with TLS, and use only TLS between servers.
func (s *RedisSentinel) addTLS(server *Redis) {
	s.tb.Helper()
	if s.options.Cert == "" {
		return
	}
	server.tlsAddr = FreeAddr(s.tb)
	server.args = append(server.args, "--tls-port", portOf(server.tlsAddr), "--tls-replication", "yes",
		"--tls-cert-file", s.options.Cert, "--tls-key-file", s.options.Key, "--tls-ca-cert-file", s.options.CA)
}

// Address returns the address of the server that the sentinels announce: the one with TLS, if
// there is one.
func (s *RedisSentinel) Address(server *Redis) string {
	if s.Proxy != nil && server == s.Nodes[0] {
		return s.Proxy.Addr
	}
	if server.tlsAddr != "" {
		return server.tlsAddr
	}
	return server.Addr
}

func (s *RedisSentinel) url() string {
	query := url.Values{}
	for _, sentinel := range s.Sentinels[1:] {
		query.Add("addr", s.Address(sentinel))
	}
	scheme := "redis-sentinel"
	if s.options.Cert != "" {
		scheme = "rediss-sentinel"
	}
	u := url.URL{Scheme: scheme, Host: s.Address(s.Sentinels[0]), Path: "/" + MasterName, RawQuery: query.Encode()}
	return u.String()
}

// Client returns a client of one server, without TLS.
func (s *RedisSentinel) Client(server *Redis) *redis.Client { return s.clients[server] }

// Must sends a command to a server and fails the test on an error.
func (s *RedisSentinel) Must(server *Redis, args ...any) any {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), commandTimeout)
	defer cancel()
	reply, err := s.clients[server].Do(ctx, args...).Result()
	if err != nil {
		s.tb.Fatalf("%v on %s: %v", args, server.Addr, err)
	}
	return reply
}

// Failover makes a sentinel promote the replica although the master works, and waits until all
// running sentinels name the node as master.
func (s *RedisSentinel) Failover() {
	s.tb.Helper()
	s.Must(s.Sentinels[0], "SENTINEL", "FAILOVER", MasterName)
	s.AwaitMaster(s.Nodes[1])
}

// AwaitMaster waits until all running sentinels name the node as master and it has the role.
func (s *RedisSentinel) AwaitMaster(node *Redis) {
	s.tb.Helper()
	await(s.tb, "the failover", func() error {
		for _, sentinel := range s.Sentinels {
			if sentinel.Pid() == 0 {
				continue
			}
			if err := s.expectInfo(sentinel, "sentinel", "address="+s.Address(node)); err != nil {
				return err
			}
		}
		return s.expectInfo(node, "replication", "role:master")
	})
}

// expectInfo returns an error unless a section of INFO contains the texts.
func (s *RedisSentinel) expectInfo(server *Redis, section string, texts ...string) error {
	ctx, cancel := context.WithTimeout(s.tb.Context(), commandTimeout)
	defer cancel()
	info, err := s.clients[server].Info(ctx, section).Result()
	if err != nil {
		return fmt.Errorf("%s: %w", server.Addr, err)
	}
	for _, text := range texts {
		if !strings.Contains(info, text) {
			return fmt.Errorf("%s does not report %s but\n%s", server.Addr, text, info)
		}
	}
	return nil
}
