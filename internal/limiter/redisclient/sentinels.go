// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// askTimeout bounds a question to a sentinel. With masterTimeout it must be shorter than
	// dialTimeout.
	askTimeout = 500 * time.Millisecond

	// askSpacing is the mean time between two questions of new connections to all sentinels.
	askSpacing = 200 * time.Millisecond

	// watchPeriod is the time between two questions to each sentinel while connections are
	// open. Messages announce a switch earlier.
	watchPeriod = time.Second

	// answerLife is how long an answer counts although its sentinel does not answer any
	// more. The sentinels inform each other every two seconds, so this suffices for the
	// others to learn about a failover from the sentinel that led it.
	answerLife = 10 * time.Second
)

// sentinels finds the master by the answers of several sentinels, and closes the connections
// to a server when another one becomes the master.
//
// The sentinels may disagree: for seconds after a failover, and as long as the network
// separates one from the others. The answer with the highest configuration epoch is the
// latest. If no sentinel answers, the last known master is used.
type sentinels struct {
	master      string
	nodes       []*sentinel
	connections *connections
	newClient   func(addr string) *redis.SentinelClient

	asking sync.Mutex // held while locate asks; guards the next two
	next   time.Time  // when locate asks again
	failed []error    // why sentinels did not answer the last time

	mu   sync.Mutex // guards the answers and stop
	stop context.CancelFunc
}

// sentinel is one sentinel.
type sentinel struct {
	addr   string
	answer answer // the last one
}

// answer is what a sentinel returned for the master. It is zero before the first one.
type answer struct {
	master string // address
	epoch  int64  // of the configuration
	at     time.Time
}

func newSentinels(master string, addrs []string, c *connections, newClient func(string) *redis.SentinelClient) *sentinels {
	s := &sentinels{master: master, connections: c, newClient: newClient}
	for _, addr := range addrs {
		s.nodes = append(s.nodes, &sentinel{addr: addr})
	}
	return s
}

// locate returns the address of the master. Connections that are opened at about the same time share a question to the sentinels: when a
// master fails, each client has several to open, and tries each again several times a second.
func (s *sentinels) locate(ctx context.Context) (string, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if time.Until(s.next) <= 0 {
		s.failed = s.askAll(ctx)
		s.next = time.Now().Add(askSpacing/2 + rand.N(askSpacing)) //nolint:forbidigo,gosec // a spread in time is not secret
	}
	return s.choose(s.failed)
}

// askAll asks all sentinels concurrently until a majority has named a master, or all have answered or failed. It returns why some did
// not answer.
func (s *sentinels) askAll(ctx context.Context) (errs []error) {
	// The late answers count for the next connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	results := make(chan error, len(s.nodes))
	var asking sync.WaitGroup
	for _, n := range s.nodes {
		asking.Go(func() {
			client := s.newClient(n.addr)
			results <- s.ask(ctx, client, n)
			_ = client.Close()
		})
	}
	go func() {
		asking.Wait()
		cancel()
	}()
	for answers := 0; answers <= len(s.nodes)/2 && answers+len(errs) < len(s.nodes); {
		if err := <-results; err != nil {
			errs = append(errs, err)
		} else {
			answers++
		}
	}
	return errs
}

// ask asks one sentinel for the master and stores the answer.
func (s *sentinels) ask(ctx context.Context, client *redis.SentinelClient, n *sentinel) error {
	// The epoch first: with the other order, a switch in between would give the old address
	// the new epoch.
	details, _ := client.Master(ctx, s.master).Result() // the epoch is 0 if the ACL forbids this command
	epoch, _ := strconv.ParseInt(details["config-epoch"], 10, 64)
	host, err := client.GetMasterAddrByName(ctx, s.master).Result()
	switch {
	case errors.Is(err, redis.Nil):
		s.store(n, answer{})
		return fmt.Errorf("sentinel %s knows no master %q", n.addr, s.master)
	case err != nil:
		return fmt.Errorf("sentinel %s: %w", n.addr, err)
	case len(host) != 2:
		return fmt.Errorf("sentinel %s: unexpected reply %q", n.addr, host)
	}
	now := time.Now() //nolint:forbidigo // the age of the answer
	s.store(n, answer{master: net.JoinHostPort(host[0], host[1]), epoch: epoch, at: now})
	return nil
}

func (s *sentinels) store(n *sentinel, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.answer = a
}

// choose returns the address of the master by the last answers. errs are the reasons for
// missing answers.
func (s *sentinels) choose(errs []error) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := time.Now().Add(-answerLife) //nolint:forbidigo // the age of the answers
	var latest, latestRecent answer
	recent := 0
	for _, n := range s.nodes {
		latest = later(latest, n.answer)
		if n.answer.at.After(since) {
			recent++
			latestRecent = later(latestRecent, n.answer)
		}
	}
	switch {
	case latest.master == "":
		return "", noMaster(errs)
	case recent > len(s.nodes)/2:
		// Older answers of the others do not count: their sentinels may be gone for good.
		return latestRecent.master, nil
	}
	return latest.master, nil
}

// noMaster returns an error of one line that wraps all errs.
func noMaster(errs []error) error {
	wrapped := make([]any, len(errs))
	for i, err := range errs {
		wrapped[i] = err
	}
	return fmt.Errorf("no sentinel names a master"+strings.Repeat("; %w", len(errs)), wrapped...)
}

// later returns the answer with the higher epoch.
func later(a, b answer) answer {
	if a.master == "" || b.master != "" && b.epoch > a.epoch {
		return b
	}
	return a
}

// startWatch watches the sentinels in the background until stopWatch.
func (s *sentinels) startWatch() {
	//nolint:forbidigo // ends with the last connection, not with the call that opened the first
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.stop = cancel
	s.mu.Unlock()
	for _, n := range s.nodes {
		go s.watch(ctx, n)
	}
}

func (s *sentinels) stopWatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// watch asks one sentinel at each announced switch and at least every watchPeriod, and closes
// the connections to a server that is no longer the master.
func (s *sentinels) watch(ctx context.Context, n *sentinel) {
	client := s.newClient(n.addr)
	defer func() { _ = client.Close() }()
	subscription := client.Subscribe(ctx, "+switch-master")
	defer func() { _ = subscription.Close() }()
	switches := subscription.Channel()
	every := time.NewTicker(watchPeriod)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-switches:
		case <-every.C:
		}
		s.refresh(ctx, client, n)
	}
}

func (s *sentinels) refresh(ctx context.Context, client *redis.SentinelClient, n *sentinel) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if s.ask(ctx, client, n) != nil {
		return
	}
	if master, err := s.choose(nil); err == nil {
		s.connections.closeExcept(master)
	}
}
