// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
)

// ErrUnsupported is returned for what a system does not have, such as a store that could be restarted.
var ErrUnsupported = errors.New("not supported")

// System is a rate limiter.
type System interface {
	Name() string
	// Description is what a reader of the results needs to know.
	Description() Description
	// Start starts instances that share their counters. It returns once each of them decides.
	Start(ctx context.Context, env *Environment, o Options) (Cluster, error)
}

// Description documents a system.
type Description struct {
	Version  string
	Settings []string // that differ from the defaults
	// Windows is how the system documents its windows.
	Windows history.WindowKind
}

// Options of a start.
type Options struct {
	Limits    []Limit
	Instances int
	// Cache turns on the answers from the memory of an instance that the system has, if it is off by default.
	Cache bool
	// Durable makes the store keep every acknowledged write over a restart.
	Durable bool
	// Sentinel runs the store as a master with a replica and sentinels.
	Sentinel bool
	// AsShipped leaves the timeout of the store as the system has it by default. Otherwise the timeout is long enough that a pause of
	// a busy machine decides nothing.
	AsShipped bool
	// Keys is how many keys to expect, if there are more than 10,000.
	Keys int
	// ClockOffsets are added to the clocks of the instances; empty for none.
	ClockOffsets []time.Duration
}

// Limit admits Units in each Window, for each combination of values of its Keys. Windows are 1s, 1m, 1h or 24h,
// which every system can do.
type Limit struct {
	Keys   []string
	Units  uint32
	Window time.Duration
}

// NamedBy returns the limit that a descriptor names, by its keys in their order.
func NamedBy(limits []Limit, d Descriptor) (Limit, bool) {
	for _, limit := range limits {
		if slices.EqualFunc(limit.Keys, d, func(key string, entry Entry) bool { return key == entry.Key }) {
			return limit, true
		}
	}
	return Limit{}, false
}

// Request asks for the units of one decision. Each of its descriptors names the limit that has its keys.
type Request struct {
	Descriptors []Descriptor
	Units       uint32
}

// Descriptor is the keys of one limit, with values.
type Descriptor []Entry

// Entry is one key with its value.
type Entry struct{ Key, Value string }

// Of returns a request for units of the limit with one key.
func Of(key, value string, units uint32) Request {
	return Request{Descriptors: []Descriptor{{{Key: key, Value: value}}}, Units: units}
}

// Answer is the decision on a request.
type Answer struct {
	Admitted bool
	// Reset is the announced time until a denied request has room; nil if none is announced.
	Reset *time.Duration
	// RetryAfter is the announced value of the header Retry-After; nil if the answer has none.
	RetryAfter *time.Duration
}

// Client asks one instance.
type Client interface {
	Ask(ctx context.Context, r Request) (Answer, error)
}

// Cluster is a running system.
type Cluster interface {
	// Client returns the client of an instance.
	Client(instance int) Client
	// Edit changes the limits. It returns when the configuration is written, not when it is in force.
	Edit(limits []Limit) error
	// Instance returns the process of an instance.
	Instance(instance int) *Process
	// Store returns the store, or ErrUnsupported if the counters live in the instances.
	Store() (Store, error)
}

// Store is where a system keeps its counters.
type Store interface {
	// Restart kills the store and starts it again.
	Restart(ctx context.Context) error
	// Freeze stops the store without closing its connections, Thaw continues it.
	Freeze() error
	Thaw() error
	// Failover kills the master and returns when another one has been elected.
	Failover(ctx context.Context) error
	// MoveClock adds to the wall clock of the store.
	MoveClock(d time.Duration) error
}

// Programs are the paths of the programs; those that are empty are not run.
type Programs struct{ Weir, Ratelimit, Gubernator, Limitador string }

// All returns the systems whose programs are given.
func All(p Programs) []System {
	var all []System
	if p.Weir != "" {
		all = append(all, &weir{program: p.Weir, algorithm: "SlidingLog"}, &weir{program: p.Weir, algorithm: "FixedWindow"})
	}
	if p.Ratelimit != "" {
		all = append(all, &envoyRatelimit{program: p.Ratelimit})
	}
	if p.Limitador != "" {
		all = append(all, &limitador{program: p.Limitador}, &limitador{program: p.Limitador, cached: true})
	}
	if p.Gubernator != "" {
		all = append(all, &gubernator{program: p.Gubernator}, &gubernator{program: p.Gubernator, global: true})
	}
	return all
}
