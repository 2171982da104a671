// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// weighed are records, decoded as a replica decodes them.
type weighed struct {
	records []plan.Record
	// encodings are two of each record, as in the leader.
	encodings [][]byte
	weight    int
}

// add adds a record and its weight.
func (w *weighed) add(tb testing.TB, r plan.Record) {
	tb.Helper()
	data, err := plan.Encode(r)
	if err != nil {
		tb.Fatal(err)
	}
	decoded, err := plan.Decode(data)
	if err != nil {
		tb.Fatal(err)
	}
	usage := plan.UsageOf(decoded, len(data))
	w.weight += usage.Bytes + usage.KeyBytes + usage.ExceptionBytes
	w.records = append(w.records, decoded)
	w.encodings = append(w.encodings, slices.Clone(data), slices.Clone(data))
}

// heapUse is the heap that records take in an engine, and their weight, in bytes.
type heapUse struct {
	live   int
	peak   int // live, and a second index, as while one is built
	weight int
}

// measureHeap measures an engine with n records, and with the encodings that a leader has. All expressions are compiled.
func measureHeap(tb testing.TB, n int, record func(i int) plan.Record, beside ...plan.Record) (h heapUse) {
	tb.Helper()
	before := heapInUse()
	all := weighed{records: beside}
	for i := range n {
		all.add(tb, record(i))
	}
	e := newAdmitting()
	e.Use(index.NewSnapshotOf(1, all.records))
	e.Prepare()
	h.live = int(heapInUse() - before)
	second := index.NewSnapshotOf(2, all.records)
	h.peak, h.weight = int(heapInUse()-before), all.weight
	runtime.KeepAlive(all)
	runtime.KeepAlive(e)
	runtime.KeepAlive(second)
	tb.Logf("%d bytes each, %d with a second index, weight %d", h.live/n, h.peak/n, h.weight/n)
	return h
}

// formatted returns n texts that contain the numbers from 0 on.
func formatted(n int, format string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

// sixteenLimits gives the plan as many limits as it may have.
func sixteenLimits(edit func(*plan.Limit)) func(*plan.Plan) {
	return func(p *plan.Plan) {
		p.Limits = nil
		for i := range plan.MaxLimits {
			l := plan.Limit{Name: string(rune('a' + i)), Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: 60_000}
			edit(&l)
			p.Limits = append(p.Limits, l)
		}
	}
}

func refilling(l *plan.Limit) { l.Algorithm, l.Burst = plan.TokenBucket, 9 }

// changed are changes of n of the limits.
func changed(n int) (all []plan.LimitOverride) {
	for i := range n {
		all = append(all, plan.LimitOverride{Name: string(rune('a' + i)), Threshold: 2})
	}
	return all
}

func overriding(n int, edit func(i int, o *plan.Override)) func(*plan.Plan) {
	return func(p *plan.Plan) {
		for i := range n {
			o := plan.Override{Name: strconv.Itoa(i), Action: plan.ActionAllow}
			edit(i, &o)
			p.Overrides = append(p.Overrides, o)
		}
	}
}

// limiting changes n limits for one key in each of 64 overrides.
func limiting(n int) func(*plan.Plan) {
	return overriding(plan.MaxOverrides, func(i int, o *plan.Override) {
		o.Keys, o.Action, o.Limits = []string{strconv.Itoa(i)}, plan.ActionLimit, changed(n)
	})
}

// sixteenMatches gives the plan as many matches as it may have.
func sixteenMatches(match func(name string) plan.Match) func(*plan.Plan) {
	return func(p *plan.Plan) {
		for i := range plan.MaxMatches {
			p.Matches = append(p.Matches, match(fmt.Sprintf("%s-%d-", p.Name, i)))
		}
	}
}

// expressed has the expression in all matches and in two overrides.
func expressed(text string) func(*plan.Plan) {
	return func(p *plan.Plan) {
		sixteenMatches(func(string) plan.Match { return plan.Match{When: text} })(p)
		overriding(2, func(_ int, o *plan.Override) { o.When = text })(p)
	}
}

// heavyPlans are plans of which one kind of part takes as much memory as it can.
var heavyPlans = map[string]struct {
	count int
	edits []func(*plan.Plan)
}{
	"smallest":  {300, nil},
	"16 limits": {100, []func(*plan.Plan){sixteenLimits(func(*plan.Limit) {})}},
	"escalating blocks": {100, []func(*plan.Plan){sixteenLimits(func(l *plan.Limit) {
		l.BlocksMillis, l.EscalationMillis = []int64{1, 2, 3, 4, 5, 6, 7, 8}, 1
	})}},
	"calendars": {20, []func(*plan.Plan){sixteenLimits(func(l *plan.Limit) {
		l.WindowMillis, l.Calendar = 0, &plan.Calendar{Period: plan.PeriodDay, TimeZone: "Europe/Berlin"}
		for j := range int64(64) {
			l.Calendar.Shifts = append(l.Calendar.Shifts, plan.Shift{At: j, OffsetSeconds: j % 2})
		}
	})}},
	"overrides of one limit of 16": {10, []func(*plan.Plan){keyed(apiKey), sixteenLimits(func(*plan.Limit) {}), limiting(1)}},
	"overrides of 16 limits":       {10, []func(*plan.Plan){keyed(apiKey), sixteenLimits(refilling), limiting(16)}},
	"candidates": {10, []func(*plan.Plan){
		keyed(apiKey), sixteenLimits(refilling), limiting(1), func(p *plan.Plan) { p.Candidates = changed(16) },
	}},
	"overrides": {100, []func(*plan.Plan){keyed(apiKey), overriding(plan.MaxOverrides, func(i int, o *plan.Override) { o.Keys = []string{strconv.Itoa(i)} })}},
	"short keys": {10, []func(*plan.Plan){keyed(apiKey), overriding(plan.MaxOverrides, func(_ int, o *plan.Override) {
		o.Keys = formatted(plan.MaxSelected, "%d")
	})}},
	"long keys": {10, []func(*plan.Plan){keyed(apiKey), overriding(1, func(_ int, o *plan.Override) {
		o.Keys = formatted(plan.MaxSelected, strings.Repeat("k", 240)+"%d")
	})}},
	"addresses": {10, []func(*plan.Plan){countedByAddress(24, 64), overriding(plan.MaxOverrides/2, func(i int, o *plan.Override) {
		o.Keys = formatted(plan.MaxSelected, strconv.Itoa(i)+":%d::1")
	})}},
	"networks": {10, []func(*plan.Plan){overriding(16, func(_ int, o *plan.Override) {
		for i := range plan.MaxSelected {
			o.CIDRs = append(o.CIDRs, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i), 1}), 16))
		}
	})}},
	"groups": {30, []func(*plan.Plan){keyed(apiKey), overriding(plan.MaxOverrides, func(_ int, o *plan.Override) {
		o.Groups = formatted(plan.MaxGroups, "%d")
	})}},
	"hosts and paths": {30, []func(*plan.Plan){sixteenMatches(func(name string) plan.Match {
		return plan.Match{Hosts: formatted(plan.MaxPatterns, name+"%d.t"), Paths: formatted(plan.MaxPatterns, "/"+name+"%d")}
	})}},
	"prefixes": {30, []func(*plan.Plan){sixteenMatches(func(name string) plan.Match {
		m := plan.Match{}
		for i := range plan.MaxPatterns {
			m.Paths = append(m.Paths, "/"+name+strings.Repeat("0", i)+"*")
		}
		return m
	})}},
	"one path": {100, []func(*plan.Plan){sixteenMatches(func(name string) plan.Match { return plan.Match{Paths: []string{"/" + name}} })}},
	"entries": {30, []func(*plan.Plan){sixteenMatches(func(name string) (m plan.Match) {
		for _, key := range formatted(plan.MaxEntries, "%d") {
			e := plan.Entry{Key: key, Value: name}
			m.Headers, m.QueryParameters = append(m.Headers, e), append(m.QueryParameters, e)
			m.Descriptors = append(m.Descriptors, plan.EntryMatch{Key: key, Value: name})
		}
		return m
	})}},
	"exceptions": {10, []func(*plan.Plan){sixteenMatches(func(string) (m plan.Match) {
		for _, key := range formatted(plan.MaxEntries, "%d") {
			m.Descriptors = append(m.Descriptors, plan.EntryMatch{Key: key, Except: formatted(plan.MaxExcept, "%02d")})
		}
		return m
	})}},
	"targets": {30, []func(*plan.Plan){sixteenMatches(func(name string) (m plan.Match) {
		for _, route := range formatted(plan.MaxTargets, "HTTPRoute/t/"+name+"%d") {
			m.Targets = append(m.Targets, plan.Target(route))
		}
		return m
	})}},
	"small expressions":          {3, []func(*plan.Plan){expressed("true")}},
	"macros":                     {1, []func(*plan.Plan){expressed(strings.Repeat("[].map(a,a)==[]||", 58) + "true")}},
	"nested macros":              {1, []func(*plan.Plan){expressed(strings.Repeat("[].all(a,[].all(b,[].all(c,true)))||", 27) + "true")}},
	"maps":                       {1, []func(*plan.Plan){expressed("[" + strings.Repeat("{1:{}},", 140) + "1]==[]")}},
	"constants":                  {1, []func(*plan.Plan){expressed("1 in [" + strings.Repeat("1,", 500) + "1]")}},
	"patterns":                   {2, []func(*plan.Plan){expressed(`request.path.matches("(?i)\\pL{1,29}z")`)}},
	"patterns without automaton": {2, []func(*plan.Plan){expressed(`"".matches("\\b(?:abcdefghijk){14}")`)}},
	"expressions in the key": {20, []func(*plan.Plan){func(p *plan.Plan) {
		for range plan.MaxKeyParts {
			p.Key = append(p.Key, plan.KeyPart{Type: plan.KeyExpression, Expression: "request.path"})
		}
	}}},
	"a cost for each code": {20, []func(*plan.Plan){func(p *plan.Plan) {
		p.Reservations = plan.Reservations{MaxTTLMillis: 1000, MaxOpen: 1, Cost: "response.code % 2"}
	}}},
	"body": {20, []func(*plan.Plan){func(p *plan.Plan) {
		p.Denial.Body = plan.DenialBody{ContentType: "text/plain", Template: strings.Repeat("x", 16_000)}
	}}},
}

// Whatever a plan has, it takes no more memory than its weight.
func TestWeightsCoverTheHeap(t *testing.T) {
	for name, tc := range heavyPlans {
		t.Run(name, func(t *testing.T) {
			h := measureHeap(t, tc.count, func(i int) plan.Record { return makePlan(fmt.Sprintf("a/p%d", i), tc.edits...) })
			NewWithT(t).Expect(h.peak).To(BeNumerically("<=", h.weight))
		})
	}
}

// An ordinary policy, as testpolicy.Numbered, is not weighed at much more than it takes.
func TestOrdinaryPoliciesAreWeighedFairly(t *testing.T) {
	const count = 1000
	h := measureHeap(t, count, func(i int) plan.Record {
		return makePlan(fmt.Sprintf("a/p%d", i), matching(plan.Match{Hosts: []string{fmt.Sprintf("h%d.example", i)}, Paths: []string{"/api/*"}}), func(p *plan.Plan) {
			p.Limits = append(p.Limits, plan.Limit{Name: "hourly", Algorithm: plan.TokenBucket, Threshold: 10, Burst: 10, WindowMillis: 1000})
		})
	})
	NewWithT(t).Expect(h.weight).To(And(BeNumerically(">=", h.peak), BeNumerically("<=", 3*h.live)))
}

func TestWeightsCoverKeyGroups(t *testing.T) {
	for name, keys := range map[string][]string{
		"one key": {"1"}, "short keys": formatted(plan.MaxGroupKeys, "%d"), "513 keys": formatted(513, "%03d"),
		"names of tenants": formatted(plan.MaxGroupKeys, "tenant-%013d"), "long keys": formatted(plan.MaxGroupKeys, strings.Repeat("k", 250)+"%03d"),
		"addresses":              formatted(plan.MaxGroupKeys, "::%03d"),
		"keys that JSON escapes": formatted(plan.MaxGroupKeys, strings.Repeat("<", 250)+"%03d"),
	} {
		t.Run(name, func(t *testing.T) {
			const count = 20
			slices.Sort(keys)
			cached := make([][]string, 0, count) // the Kubernetes objects, of which all replicas have a cache
			h := measureHeap(t, count, func(i int) plan.Record {
				group := keyGroup("gold", "gold", keys...)
				group.Namespace = "n" + strconv.Itoa(i)
				cached = append(cached, make([]string, len(keys)))
				for j, key := range keys {
					cached[i][j] = strings.Clone(key)
				}
				return group
			})
			NewWithT(t).Expect(h.peak).To(BeNumerically("<=", h.weight))
			runtime.KeepAlive(cached)
		})
	}
}

// Exceptions include the limits of their key, which the first decision derives.
func TestWeightsCoverExceptions(t *testing.T) {
	policy := makePlan("a/x", keyed(apiKey), sixteenLimits(refilling))
	for name, edit := range map[string]func(*plan.Exception){
		"Allow":   func(e *plan.Exception) { allowing(e) },
		"a limit": func(*plan.Exception) {},
		"16 limits": func(e *plan.Exception) {
			e.Limits = nil
			for _, l := range changed(16) {
				e.Limits = append(e.Limits, plan.ExceptionLimit{Name: l.Name, Threshold: l.Threshold})
			}
		},
		"a long reason": func(e *plan.Exception) { e.Reason = strings.Repeat("r", plan.MaxReason) },
	} {
		t.Run(name, func(t *testing.T) {
			const count = 300
			h := measureHeap(t, count, func(i int) plan.Record {
				e := exceptionFor("e"+strconv.Itoa(i), strconv.Itoa(i), plan.ExceptionLimit{Name: "a", Threshold: 2})
				edit(e)
				return e
			}, policy)
			NewWithT(t).Expect(h.peak).To(BeNumerically("<=", h.weight))
		})
	}
}

// Twice as many records cost at most 2.5 times as much to build.
func TestBuildingIsLinear(t *testing.T) {
	allocated := func(records []plan.Record) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		newAdmitting().Use(index.NewSnapshotOf(1, records))
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	expectLinear := func(t *testing.T, n int, record func(i int) plan.Record, beside ...plan.Record) {
		t.Helper()
		all := beside
		for i := range 2 * n {
			all = append(all, record(i))
		}
		half, whole := allocated(all[:len(beside)+n]), allocated(all)
		t.Logf("%.0f, %.0f bytes", half, whole)
		NewWithT(t).Expect(whole).To(BeNumerically("<=", 2.5*half))
	}
	for name, tc := range heavyPlans {
		t.Run(name, func(t *testing.T) {
			expectLinear(t, 4*tc.count, func(i int) plan.Record { return makePlan(fmt.Sprintf("a/p%d", i), tc.edits...) })
		})
	}
	t.Run("key groups", func(t *testing.T) {
		expectLinear(t, 100, func(i int) plan.Record {
			return keyGroup("gold-"+strconv.Itoa(i), "gold", formatted(plan.MaxGroupKeys, strconv.Itoa(i)+"-%03d")...)
		})
	})
	t.Run("one key in all groups", func(t *testing.T) {
		expectLinear(t, 500, func(i int) plan.Record { return keyGroup("gold-"+strconv.Itoa(i), "gold-"+strconv.Itoa(i), "acme") })
	})
	t.Run("exceptions", func(t *testing.T) {
		expectLinear(t, 500, func(i int) plan.Record {
			return exceptionFor("e"+strconv.Itoa(i), strconv.Itoa(i), burstOf(5))
		}, makePlan("a/x", keyed(apiKey)))
	})
	t.Run("exceptions for one key", func(t *testing.T) {
		expectLinear(t, 500, func(i int) plan.Record { return exceptionFor("e"+strconv.Itoa(i), "acme", burstOf(5)) }, makePlan("a/x", keyed(apiKey)))
	})
}
