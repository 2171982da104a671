// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
	"github.com/weir-dev/weir/test/conform/system"
)

// Scenario is one thing to do to a rate limiter.
type Scenario struct {
	Name string // on the command line
	// Question is what the scenario finds out.
	Question string
	// Fault is true if something breaks: then denials are the failure mode, not under-admission.
	Fault bool
	// Unreplicated is how many units may be admitted again because the scenario loses acknowledged writes
	// of the store.
	Unreplicated int64
	run          func(ctx context.Context, r *run) error
}

// Settings of all scenarios.
type Settings struct {
	// Keys of the scenario with many keys.
	Keys int
	// Rounds repeats scenarios whose outcome depends on time.
	Rounds int
}

// Result is the outcome of a scenario.
type Result struct {
	Scenario, System string
	// Unsupported is why the system cannot do it; all else is empty then.
	Unsupported string `json:",omitempty"`
	// Over is how many units were admitted beyond the quota in the worst period of the length of the window,
	// OverDocumented in the worst window that the system documents.
	Over, OverDocumented int64
	// Under is how many units were denied though there was room.
	Under    int64
	Counts   history.Counts
	P50, P99 time.Duration
	// Figures are further results, in the order in which they were measured.
	Figures []Figure `json:",omitempty"`
}

// Figure is a further result.
type Figure struct{ Name, Value string }

// Violation returns what is wrong with the result, empty if nothing is.
func (s *Scenario) Violation(r *Result) string {
	switch {
	case r.OverDocumented > s.Unreplicated:
		return fmt.Sprintf("%d units over the quota", r.OverDocumented)
	case r.Under > 0 && !s.Fault:
		return fmt.Sprintf("%d units denied though there was room", r.Under)
	case r.Counts.Failed > 0 && !s.Fault:
		return fmt.Sprintf("%d calls failed", r.Counts.Failed)
	default:
		return ""
	}
}

// All returns the scenarios, in the order of the results.
func All() []*Scenario {
	return []*Scenario{
		{Name: "exact-1", Question: "400 parallel calls, 1 instance", run: exact(1)},
		{Name: "exact-2", Question: "400 parallel calls, 2 instances", run: exact(2)},
		{Name: "exact-4", Question: "400 parallel calls, 4 instances", run: exact(4)},
		{Name: "edge", Question: "two bursts around the end of a window", run: edge},
		{Name: "hot-key", Question: "one hot key, 4 instances, local caches on", run: hotKey},
		{Name: "costs", Question: "costs, also larger than the quota", run: costs},
		{Name: "several", Question: "several limits in one request, all or nothing", run: several},
		{Name: "keys", Question: "keys that differ in a separator, a case, a character or a length", run: keys},
		{Name: "many-keys", Question: "many keys, each asked twice with a quota of 1", run: manyKeys},
		{Name: "reset", Question: "whether the announced time is true", run: reset},
		{Name: "edit", Question: "a limit raised and lowered while it is in use", run: edit},
		{Name: "clocks", Question: "clocks of instances that differ by 0.5 s and 30 s", run: clocks},
		{Name: "restart-instance", Question: "one of 2 instances is killed under load", Fault: true, run: restartInstance},
		{Name: "restart-store", Question: "the store is killed under load and keeps its writes", Fault: true, run: restartStore},
		{Name: "hung-store", Question: "the store hangs for 2 s under load", Fault: true, run: hungStore},
		{Name: "failover", Question: "the master of the store is killed under load", Fault: true, Unreplicated: loadCallers, run: failover},
	}
}

// Run runs a scenario on a system.
func (s *Scenario) Run(ctx context.Context, on system.System, settings Settings) (result *Result, err error) {
	env, err := system.NewEnvironment()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	r := &run{
		env: env, system: on, windows: on.Description().Windows, settings: settings, recorder: &history.Recorder{}, quotas: history.Quotas{},
		result: &Result{Scenario: s.Name, System: on.Name()},
	}
	err = s.run(ctx, r)
	if errors.Is(err, system.ErrUnsupported) {
		return &Result{Scenario: s.Name, System: on.Name(), Unsupported: err.Error()}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", on.Name(), s.Name, err)
	}
	r.judge()
	return r.result, nil
}
