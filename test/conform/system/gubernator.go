// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
	gubernatorpb "github.com/weir-dev/weir/test/conform/system/gubernator"
)

// gubernator runs gubernator, whose instances find each other and keep the counters of their keys in memory. A request
// carries its limits.
type gubernator struct {
	program string
	global  bool // behavior GLOBAL: instances answer from copies of the owner's counters
}

// Name implements System.
func (g *gubernator) Name() string {
	if g.global {
		return "gubernator, GLOBAL"
	}
	return "gubernator"
}

// Description implements System.
func (g *gubernator) Description() Description {
	d := Description{
		Version: versionOf(g.program), Settings: []string{"algorithm TOKEN_BUCKET", "with 1,000,000 keys: GUBER_CACHE_SIZE=2000000"},
		Windows: history.Anchored,
	}
	if g.global {
		d.Settings = append(d.Settings, "behavior GLOBAL")
	}
	return d
}

// gubernatorCluster is a cluster whose limits are in the requests.
type gubernatorCluster struct {
	cluster
	limits atomic.Pointer[[]Limit]
}

// Edit implements Cluster.
func (c *gubernatorCluster) Edit(limits []Limit) error {
	c.limits.Store(&limits)
	return nil
}

// Start implements System.
func (g *gubernator) Start(ctx context.Context, env *Environment, o Options) (Cluster, error) {
	if o.Sentinel || o.Durable {
		return nil, fmt.Errorf("a store: %w", ErrUnsupported)
	}
	c := &gubernatorCluster{}
	c.limits.Store(&o.Limits)
	var members []string
	for i := range o.Instances {
		addresses := make([]string, 3)
		for j := range addresses {
			var err error
			if addresses[j], err = freeAddress(); err != nil {
				return nil, err
			}
			// Members are known by their IP address, too.
			addresses[j] = fmt.Sprintf("127.0.0.%d:%s", i+2, portOf(addresses[j]))
		}
		offset, err := goOffset(g.program, o.ClockOffsets, i)
		if err != nil {
			return nil, err
		}
		members = append(members, addresses[2])
		client, err := g.connect(env, addresses[0], c)
		if err != nil {
			return nil, err
		}
		// Members are known by the name of their machine, so each has a name of its own.
		p := &Process{program: "unshare", args: []string{
			"--user", "--map-root-user", "--uts", "sh", "-c", `hostname "$0" && exec "$1"`, fmt.Sprintf("gubernator-%d", i), g.program,
		}, ready: func(ctx context.Context) error { return client.knows(ctx, i+1) }, env: append(offset,
			"GUBER_GRPC_ADDRESS="+addresses[0], "GUBER_HTTP_ADDRESS="+addresses[1], "GUBER_ADVERTISE_ADDRESS="+addresses[0], "GUBER_LOG_LEVEL=error", "OTEL_TRACES_EXPORTER=none",
			"GUBER_CACHE_SIZE="+strconv.Itoa(max(50_000, 2*o.Keys)),
			"GUBER_PEER_DISCOVERY_TYPE=member-list", "GUBER_MEMBERLIST_ADDRESS="+addresses[2],
			"GUBER_MEMBERLIST_BIND_ADDRESS="+addresses[2], "GUBER_MEMBERLIST_ADVERTISE_ADDRESS="+addresses[0], "GUBER_MEMBERLIST_KNOWN_NODES="+strings.Join(members, ","),
		)}
		c.processes, c.clients = append(c.processes, p), append(c.clients, client)
		if err := env.startProcess(ctx, p); err != nil {
			return nil, err
		}
	}
	for _, client := range c.clients {
		err := await(ctx, nil, func(ctx context.Context) error { return client.(*gubernatorClient).knows(ctx, o.Instances) })
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (g *gubernator) connect(env *Environment, address string, c *gubernatorCluster) (*gubernatorClient, error) {
	conns, err := env.connect(address)
	if err != nil {
		return nil, err
	}
	client := &gubernatorClient{limits: &c.limits, global: g.global, next: turns()}
	for _, conn := range conns {
		client.clients = append(client.clients, gubernatorpb.NewClient(conn))
	}
	return client, nil
}

// gubernatorClient asks over gubernator's protocol.
type gubernatorClient struct {
	clients []*gubernatorpb.Client
	limits  *atomic.Pointer[[]Limit]
	global  bool
	next    chan int
}

// Ask implements Client.
func (c *gubernatorClient) Ask(ctx context.Context, r Request) (Answer, error) {
	var requests []gubernatorpb.Request
	for _, d := range r.Descriptors {
		limit, ok := NamedBy(*c.limits.Load(), d)
		if !ok {
			continue
		}
		// gubernator has one key: a caller has to encode several values so that they cannot be confused.
		requests = append(requests, gubernatorpb.Request{
			Name: strings.Join(limit.Keys, "-"), Key: fmt.Sprintf("%q", d), Hits: int64(r.Units), Limit: int64(limit.Units), Duration: limit.Window, Global: c.global,
		})
	}
	answers, err := c.clients[turn(c.next)].GetRateLimits(ctx, requests)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Admitted: true}
	for _, one := range answers {
		if one.Over {
			reset := max(0, time.Until(one.Reset))
			a.Admitted, a.Reset = false, &reset
		}
	}
	return a, nil
}

// knows returns an error unless the instance is healthy and knows the number of instances.
func (c *gubernatorClient) knows(ctx context.Context, instances int) error {
	peers, err := c.clients[0].HealthCheck(ctx)
	if err == nil && peers < instances {
		err = fmt.Errorf("%d of %d instances are known", peers, instances)
	}
	return err
}
