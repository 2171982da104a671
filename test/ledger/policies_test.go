// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// now is the time of all compilations.
var now = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)

// The dimensions of the matches of policies.
var matchDimensions = []dimension{
	{name: "policies", first: 2},
	{name: "matches", of: "policies", first: 2, most: plan.MaxMatches},
	{name: "hosts", of: "matches", first: 2, most: plan.MaxPatterns},
	{name: "paths", of: "matches", first: 2, most: plan.MaxPatterns},
	{name: "methods", of: "matches", first: 1, most: plan.MaxMethods},
	{name: "headers", of: "matches", first: 1, most: plan.MaxEntries},
	{name: "targets", of: "policies", first: 1, most: plan.MaxTargets},
	{name: "matches with the same values", most: 64, shape: true},
}

// crossed are 12 matches for each block of 32 hosts, and 12 others for each block of paths.
var crossed = []int{1, 16, 32, 32, 1, 1, 1, 12}

// compiledDimensions are the dimensions of policies with overrides.
var compiledDimensions = []dimension{
	{name: "policies", first: 1},
	{name: "matches", of: "policies", first: 1, most: plan.MaxMatches},
	{name: "patterns", of: "matches", first: 2, most: plan.MaxPatterns},
	{name: "limits", of: "policies", first: 2, most: plan.MaxLimits},
	{name: "overrides", of: "policies", first: 2, most: plan.MaxOverrides},
	{name: "keys", of: "overrides", first: 1, most: plan.MaxSelected},
	{name: "length of a key", of: "keys", first: 4, most: plan.MaxText},
	{name: "entries", of: "matches", first: 1, most: plan.MaxEntries},
	{name: "exceptions", of: "entries", first: 1, most: plan.MaxExcept},
}

// inheriting is a policy of little else than overrides, of which each keeps the numbers of all limits but one.
var inheriting = []int{1, 1, 1, 16, 64, 1, 4, 1, 1}

var policyRows = map[string]row{
	"RateLimitPolicy: compiled": {
		dimensions: compiledDimensions,
		attacks:    [][]int{inheriting},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			return compiling(tb, overridingAll(n))
		},
	},
	"RateLimitPolicy: index of its Namespace": {
		dimensions: matchDimensions,
		attacks:    [][]int{crossed},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			policies := crowd(n)
			plans, encoded := plansOf(tb, policies)
			return instance{encoded: encoded, use: func(testing.TB) any { return index.NewSnapshot(1, plans) }}
		},
	},
	"RateLimitPolicy: weight": {
		dimensions: compiledDimensions,
		attacks:    [][]int{inheriting},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			plans, encoded := plansOf(tb, overridingAll(n))
			return instance{encoded: encoded, steps: func(tb testing.TB) (weight int) {
				tb.Helper()
				for _, p := range plans {
					weight += plan.UsageOf(p, encodedBytes(tb, p)).Bytes
				}
				return weight
			}}
		},
	},
}

// objectsOf returns n objects.
func objectsOf[T any](n int, object func(i int) T) (all []T) {
	for i := range n {
		all = append(all, object(i))
	}
	return all
}

// encodedBytes returns the size of the objects as their author sends them.
func encodedBytes[T any](tb testing.TB, objects ...T) (n int) {
	tb.Helper()
	for _, o := range objects {
		data, err := json.Marshal(o)
		if err != nil {
			tb.Fatal(err)
		}
		n += len(data)
	}
	return n
}

// formatted returns n texts that contain the numbers from 0 on.
func formatted(n int, format string, args ...any) []string {
	return objectsOf(n, func(i int) string { return fmt.Sprintf(format, append(args, i)...) })
}

// matching returns matches with as many values of each kind. block returns the number of the values of a match: matches with
// the same number have the same.
func matching(matches, hosts, paths, methods, headers int, block func(match int) int) (all []v1alpha1.Match) {
	for i := range matches {
		b := block(i)
		m := v1alpha1.Match{Hosts: formatted(hosts, "h%d-%d.t", b), Paths: formatted(paths, "/p%d-%d", b), Methods: formatted(methods, "M%d")}
		for _, name := range formatted(headers, "x%d") {
			m.Headers = append(m.Headers, v1alpha1.HeaderMatch{Name: name, Type: "Exact", Value: "1"})
		}
		all = append(all, m)
	}
	return all
}

// crowd returns policies of one Namespace with the numbers of matchDimensions. As many matches share their hosts as the last one,
// and as many others their paths.
func crowd(n []int) []*v1alpha1.RateLimitPolicy {
	same := n[7]
	blocks := max(1, n[0]*n[1]/same)
	return objectsOf(n[0], func(i int) *v1alpha1.RateLimitPolicy {
		b := testpolicy.Make(fmt.Sprintf("t/p%04d", i)).UID(strconv.Itoa(i)).Generation(1)
		for j := range n[1] {
			at := i*n[1] + j
			m := matching(1, n[2], 0, n[4], n[5], func(int) int { return at / same % blocks })[0]
			m.Paths = matching(1, 0, n[3], 0, 0, func(int) int { return (at/same + 7*(at%same)) % blocks })[0].Paths
			b.Match(m)
		}
		for _, name := range formatted(n[6], "r%[2]d-%[1]d", i/same) {
			b.Target("HTTPRoute", name)
		}
		return b.Limit("a", v1alpha1.AlgorithmFixedWindow, 1, "1m").Obj()
	})
}

// overridingAll returns policies with the numbers of compiledDimensions.
func overridingAll(n []int) []*v1alpha1.RateLimitPolicy {
	return objectsOf(n[0], func(i int) *v1alpha1.RateLimitPolicy {
		matches := matching(n[1], n[2], n[2], 0, 0, func(match int) int { return i*n[1] + match })
		for j := range matches {
			for _, key := range formatted(n[7], "k%d") {
				matches[j].Descriptors = append(matches[j].Descriptors, v1alpha1.DescriptorMatch{Key: key, Except: formatted(n[8], "%d")})
			}
		}
		return overriding(i, matches, n[3], n[4], n[5], n[6])
	})
}

// overriding returns a policy whose overrides change one limit each, and keep the numbers of the others.
func overriding(i int, matches []v1alpha1.Match, limits, overrides, keys, length int) *v1alpha1.RateLimitPolicy {
	b := testpolicy.Make(fmt.Sprintf("t/p%d", i)).Key(testpolicy.HeaderPart("X-A"))
	for _, m := range matches {
		b.Match(m)
	}
	for j := range limits {
		b.Limit(fmt.Sprint("l", j), v1alpha1.AlgorithmTokenBucket, 10, "1m")
	}
	two := int64(2)
	for j := range overrides {
		b.Override(v1alpha1.Override{
			Name: fmt.Sprint("o", j), Action: v1alpha1.OverrideActionLimit, Keys: formatted(keys, "%0*d-%d", max(1, length-4), j),
			Limits: []v1alpha1.LimitOverride{{Name: "l0", Threshold: &two}},
		})
	}
	return b.Obj()
}

// plansOf returns the plans of the policies, and the size of the policies.
func plansOf(tb testing.TB, policies []*v1alpha1.RateLimitPolicy) (plans []*plan.Plan, encoded int) {
	tb.Helper()
	for _, p := range policies {
		compiled, problems := compile.Compile(p, compile.Everything(), now)
		if len(problems) > 0 {
			tb.Fatalf("%v", problems)
		}
		plans = append(plans, compiled)
	}
	return plans, encodedBytes(tb, policies...)
}

// compiling returns the instance of policies that a replica compiles, publishes, decodes and prepares to decide with.
func compiling(tb testing.TB, policies []*v1alpha1.RateLimitPolicy) instance {
	tb.Helper()
	return instance{encoded: encodedBytes(tb, policies...), use: func(tb testing.TB) any {
		tb.Helper()
		plans, _ := plansOf(tb, policies)
		return deciding(tb, admitting{}, published(tb, plans)...)
	}}
}

// published returns the records as replicas read them.
func published[R plan.Record](tb testing.TB, records []R) (all []plan.Record) {
	tb.Helper()
	for _, r := range records {
		data, err := plan.Encode(r)
		if err != nil {
			tb.Fatal(err)
		}
		decoded, err := plan.Decode(data)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, decoded)
	}
	return all
}

// deciding returns an engine with the records.
func deciding(tb testing.TB, backend engine.Store, records ...plan.Record) *engine.Engine {
	tb.Helper()
	e := engine.New(engine.Options{Store: backend, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	e.Use(index.NewSnapshotOf(1, records))
	return e
}

// admitting is a Store for engines that decide nothing.
type admitting struct{ engine.Store }

func (admitting) Evaluate(context.Context, *store.Call) (*store.Reply, error) {
	panic("decides nothing")
}
