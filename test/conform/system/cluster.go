// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"time"
)

// cluster is instances that were started in turn, with the store that they share.
type cluster struct {
	store     *redisServer // nil if the counters live in the instances
	write     func(limits []Limit) error
	processes []*Process
	clients   []Client
}

// Client implements Cluster.
func (c *cluster) Client(instance int) Client { return c.clients[instance] }

// Instance implements Cluster.
func (c *cluster) Instance(instance int) *Process { return c.processes[instance] }

// Edit implements Cluster.
func (c *cluster) Edit(limits []Limit) error { return c.write(limits) }

// Store implements Cluster.
func (c *cluster) Store() (Store, error) {
	if c.store == nil {
		return nil, ErrUnsupported
	}
	return c.store, nil
}

// add starts an instance that serves Envoy's protocol, and waits until it decides: it may accept connections before
// that.
func (c *cluster) add(ctx context.Context, env *Environment, p *Process, address string, joined bool) error {
	client, err := env.newEnvoyClient(address, joined)
	if err != nil {
		return err
	}
	accepts := p.ready
	p.ready = func(ctx context.Context) error {
		if err := accepts(ctx); err != nil {
			return err
		}
		return decides(ctx, client)
	}
	c.processes, c.clients = append(c.processes, p), append(c.clients, client)
	return env.startProcess(ctx, p)
}

// decides returns an error unless the instance decides a request of no limit.
func decides(ctx context.Context, client Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := client.Ask(ctx, Of("conform-ready", "x", 1))
	return err
}
