// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"errors"
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

	// helloPeriod is how often the sentinels inform each other until all know each other. The
	// default is publishPeriod. After four periods they demote a master that they do not expect,
	// so a failover must be announced to them by then.
	helloPeriod   = 500 * time.Millisecond
	publishPeriod = 2 * time.Second

	// infoPeriod is how often the sentinels ask the data nodes; the default is ten seconds. While
	// the master works, they promote only a replica that has answered in the last three periods.
	infoPeriod = time.Second

	// tiltTrigger is how long the machine may stop a sentinel. One that was stopped for longer
	// only watches for 30 s; the default is two seconds.
	tiltTrigger = startTimeout
)

// SentinelOptions configure a RedisSentinel. The zero value is two data nodes without TLS.
type SentinelOptions struct {
	// Valkey runs valkey-server instead of redis-server.
	Valkey bool
	// Args go to every data node.
	Args []string
	// Config are further lines of the configuration of every sentinel.
	Config []string
	// Partitionable puts a Network between the first master and all others: the replica, the sentinels
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

	// Network is in front of the first master of a Partitionable RedisSentinel.
	Network *Network

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
		s.Network = StartNetwork(tb, s.Address(master))
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
	for _, sentinel := range s.Sentinels {
		s.setPeriods(sentinel, map[string]time.Duration{"PUBLISH-PERIOD": publishPeriod})
	}
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
	s.setPeriods(sentinel, map[string]time.Duration{
		"PUBLISH-PERIOD": helloPeriod, "INFO-PERIOD": infoPeriod, "TILT-TRIGGER": tiltTrigger,
	})
	return sentinel
}

// setPeriods changes times that the configuration of a sentinel does not have.
func (s *RedisSentinel) setPeriods(sentinel *Redis, periods map[string]time.Duration) {
	s.tb.Helper()
	for name, period := range periods {
		s.Must(sentinel, "SENTINEL", "DEBUG", name, period.Milliseconds())
	}
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
	if s.Network != nil && server == s.Nodes[0] {
		return s.Network.Addr
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

// Failover makes the first sentinel promote the replica although the master works, and waits
// until all running sentinels name it as master.
func (s *RedisSentinel) Failover() {
	s.tb.Helper()
	s.Promote()
	s.AwaitMaster(s.Nodes[1])
}

// Promote is Failover that waits only for the first sentinel.
func (s *RedisSentinel) Promote() {
	s.tb.Helper()
	leader := s.Sentinels[0]
	await(s.tb, "the promotion", func() error {
		err := s.expectInfo(leader, "sentinel", "address="+s.Address(s.Nodes[1]))
		if err == nil {
			return nil
		}
		// A sentinel that was late to ask the replica gives up.
		ctx, cancel := context.WithTimeout(s.tb.Context(), commandTimeout)
		defer cancel()
		return errors.Join(err, s.clients[leader].Do(ctx, "SENTINEL", "FAILOVER", MasterName).Err())
	})
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

// AwaitReplica waits until the node has the role of a replica. A sentinel that gives it the role
// closes its connections, so it may fail to answer at first.
func (s *RedisSentinel) AwaitReplica(node *Redis) {
	s.tb.Helper()
	await(s.tb, "the node to follow", func() error { return s.expectInfo(node, "replication", "role:slave") })
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
