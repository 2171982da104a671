// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/test/testplan"
)

func TestMatchesOfANamespaceAreBounded(t *testing.T) {
	g := NewWithT(t)
	var plans []*plan.Plan
	add := func(namespace string, mode plan.Mode, count int) {
		for i := range count {
			p := &plan.Plan{Namespace: namespace, Name: fmt.Sprintf("%s-%03d", strings.ToLower(string(mode)), i), Mode: mode}
			for range plan.MaxMatches {
				p.Matches = append(p.Matches, plan.Match{Descriptors: []plan.EntryMatch{{Key: "user"}}, When: "true"})
			}
			plans = append(plans, p)
		}
	}
	const fit = plan.MaxNamespaceMatches / plan.MaxMatches / 64
	add("a", plan.ModeEnforce, 50)
	add("a", plan.ModeShadow, fit)
	add("b", plan.ModeEnforce, fit)
	slices.SortFunc(plans, func(a, b *plan.Plan) int { return strings.Compare(a.ID(), b.ID()) })
	var all plan.Attributes
	for i := range 64 {
		all.Descriptors = append(all.Descriptors, testplan.Descriptor(fmt.Sprint("user=", i)))
	}
	found, leftOut := map[string]int{}, map[string]int{}
	for _, f := range index.NewSnapshot(1, plans).Match(&all) {
		if f.LeftOut {
			leftOut[f.Plan.ID()]++
		} else {
			found[f.Plan.ID()]++
		}
	}
	g.Expect(found).To(HaveLen(3*fit), "the first of each Namespace and mode")
	g.Expect(found).To(HaveEach(64 * plan.MaxMatches))
	g.Expect(found).To(HaveKey(fmt.Sprintf("a/enforce-%03d", fit-1)))
	g.Expect(leftOut).To(HaveLen(50 - fit))
	g.Expect(leftOut).To(HaveEach(1))
}

// All descriptors lead to the same matches, and each is looked at once.
func TestDescriptorsFindMatchesOnce(t *testing.T) {
	g := NewWithT(t)
	var plans []*plan.Plan
	for i := range 300 {
		plans = append(plans, &plan.Plan{
			Namespace: "a", Name: fmt.Sprintf("p%03d", i), Mode: plan.ModeEnforce,
			Matches: []plan.Match{testplan.MatchEntries("user"), testplan.MatchEntries(fmt.Sprint("only=", i))},
		})
	}
	var all plan.Attributes
	for i := range 64 {
		all.Descriptors = append(all.Descriptors, testplan.Descriptor(fmt.Sprint("user=", i), fmt.Sprint("only=", i)))
	}
	g.Expect(index.NewSnapshot(1, plans).Candidates(&all)).To(Equal(300 + 64))
}

// hostileMatches return the i-th of n matches that a tenant writes so that the index takes as much memory, or finds as
// much, as it can.
var hostileMatches = map[string]func(i, n int) plan.Match{
	// 12 matches share their hosts, and 12 others their paths.
	"hosts x paths": func(i, n int) plan.Match {
		blocks := n / 12
		block := i / 12 % blocks
		return plan.Match{Hosts: testplan.Words(32, block*32, "%d.t"), Paths: testplan.Words(32, (block+7*(i%12))%blocks*32, "/%d")}
	},
	"hosts x paths x methods x targets": func(i, n int) plan.Match {
		m := plan.Match{Hosts: testplan.Words(32, i%(n/9)*32, "%d.t"), Paths: testplan.Words(32, i*7%(n/9)*32, "/%d"), Methods: testplan.Words(16, i%20, "M%d")}
		for j := range plan.MaxTargets {
			m.Targets = append(m.Targets, plan.Target("HTTPRoute/t/r"+strconv.Itoa((i+j)%(n/9))))
		}
		return m
	},
	"a host for each pattern": func(i, _ int) plan.Match { return plan.Match{Hosts: testplan.Words(32, i*32, "%d.t")} },
	"small groups at each level": func(i, _ int) plan.Match {
		return plan.Match{
			Hosts: testplan.Words(32, i/9*32, "%d.t"), Paths: testplan.Words(1, i, "/%d"), Methods: testplan.Words(1, i%5, "M%d"),
			Headers: testplan.Descriptor(fmt.Sprint("a=", i%3), "b"),
		}
	},
	"2 x 2 x 2": func(i, n int) plan.Match {
		return plan.Match{Hosts: testplan.Words(2, i%(n/9), "%d.t"), Paths: testplan.Words(2, i*7%(n/9), "/%d/*"), Methods: testplan.Words(2, i%9, "M%d")}
	},
	"prefixes of values": func(i, _ int) plan.Match {
		m := plan.Match{Domain: "t"}
		for j := range plan.MaxEntries {
			m.Descriptors = append(m.Descriptors, testplan.Wanted(fmt.Sprintf("k=%0*d*", 1+(i+16*j)%250, i))...)
		}
		return m
	},
	"prefixes of prefixes": func(int, int) plan.Match {
		m := plan.Match{Hosts: []string{"t"}}
		for j := range plan.MaxPatterns {
			m.Paths = append(m.Paths, "/"+strings.Repeat("0", j)+"*")
		}
		return m
	},
}

// hostilePlans returns plans with as many matches as a plan may have.
func hostilePlans(match func(i, n int) plan.Match, n int) []*plan.Plan {
	plans := make([]*plan.Plan, n)
	for i := range plans {
		plans[i] = &plan.Plan{Namespace: "t", Name: fmt.Sprintf("p%04d", i), Mode: plan.ModeEnforce}
		for j := range plan.MaxMatches {
			plans[i].Matches = append(plans[i].Matches, match(i*plan.MaxMatches+j, n*plan.MaxMatches))
		}
	}
	return plans
}

// The index takes a sum of what the matches have, never a product.
func TestIndexIsASum(t *testing.T) {
	const bytesOfAPattern = 150
	for name, match := range hostileMatches {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, n := range []int{32, 256} {
				all := hostilePlans(match, n)
				patterns, copies := 0, 0
				for _, p := range all {
					for _, m := range p.Matches {
						lengths := []int{len(m.Targets), len(m.Hosts), len(m.Paths), len(m.Methods)}
						copies += max(8, slices.Max(lengths))
						patterns += lengths[0] + lengths[1] + lengths[2] + lengths[3] + len(m.Headers) + len(m.Descriptors)
					}
				}
				before := heap()
				built := index.NewSnapshot(1, all)
				g.Expect(heap()-before).To(BeNumerically("<=", bytesOfAPattern*patterns), "%d patterns", patterns)
				g.Expect(built.IndexCopies()).To(BeNumerically("<=", copies))
				runtime.KeepAlive(built)
			}
			var oneByOne *index.Snapshot
			few, copies := hostilePlans(match, 32), 0
			for _, p := range few {
				oneByOne = oneByOne.With(1, map[string]plan.Record{p.ID(): p})
				copies += 32 * len(p.Matches)
			}
			g.Expect(oneByOne.IndexCopies()).To(BeNumerically("<=", copies))
		})
	}
}

// Each host of a match, or each of its targets, has a copy of it. What the copies look at adds to the memory that building the
// index allocates, and does not multiply: twice as many hosts, targets and headers allocate at most 2.5 times as much.
func TestBuildingTheIndexIsASum(t *testing.T) {
	for name, match := range map[string]func(n int) plan.Match{
		"hosts x headers": func(n int) plan.Match {
			return plan.Match{Hosts: testplan.Words(2*n, 0, "%d.t"), Headers: testplan.Descriptor(testplan.Words(n, 0, "h%02d=1")...)}
		},
		"targets x headers": func(n int) plan.Match {
			m := plan.Match{Headers: testplan.Descriptor(testplan.Words(n, 0, "h%02d=1")...)}
			for i := range n {
				m.Targets = append(m.Targets, plan.Target("HTTPRoute/t/r"+strconv.Itoa(i)))
			}
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			allocated := func(n int) uint64 {
				plans := hostilePlans(func(int, int) plan.Match { return match(n) }, 8)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				index.NewSnapshot(1, plans)
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc
			}
			few, many := allocated(plan.MaxEntries/2), allocated(plan.MaxEntries)
			t.Logf("%d, %d bytes", few, many)
			NewWithT(t).Expect(many).To(BeNumerically("<=", few*5/2))
		})
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A request for no target, host or domain of a tenant meets none of its matches, however many these are; a request for
// them meets each at most once.
func TestCandidatesAreOfTheTenant(t *testing.T) {
	victim := &plan.Plan{Namespace: "v", Name: "v", Mode: plan.ModeEnforce, Matches: []plan.Match{{Hosts: []string{"v"}, Paths: []string{"/*"}}}}
	requests := map[string]*plan.Attributes{
		"v": {Host: "v", Path: "/" + strings.Repeat("0", 40), Method: "M1", Headers: map[string]string{"a": "1", "b": "x"}},
		"t": {Targets: []plan.Target{"HTTPRoute/t/r1"}, Host: "t", Path: "/" + strings.Repeat("0", 40), Method: "M1"},
	}
	shared := map[string]func(i, n int) plan.Match{
		"one host": func(int, int) plan.Match {
			return plan.Match{Hosts: testplan.Words(1, 0, "%d.t"), Paths: testplan.Words(3, 0, "/%d*")}
		},
		"a target and all hosts": func(int, int) plan.Match {
			return plan.Match{Targets: []plan.Target{"HTTPRoute/t/r"}, Hosts: testplan.Words(32, 0, "%d")}
		},
		"a domain": func(int, int) plan.Match { return plan.Match{Domain: "t", Methods: testplan.Words(16, 0, "M%d")} },
	}
	maps.Copy(shared, hostileMatches)
	for name, match := range shared {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, plans := range [][]*plan.Plan{hostilePlans(match, 64), append(hostilePlans(match, 64), victim)} {
				s := index.NewSnapshot(1, plans)
				g.Expect(s.Candidates(requests["v"])).To(BeNumerically("<=", 1))
				g.Expect(s.Candidates(requests["t"])).To(BeNumerically("<=", 64*plan.MaxMatches))
			}
		})
	}
}

// Of a Namespace and mode 4,096 matches are examined, in the order of names. The policies of the others are left out if the
// request is for their targets, hosts and domain.
func TestExaminedMatchesOfANamespaceAreBounded(t *testing.T) {
	g := NewWithT(t)
	never := func(int, int) plan.Match {
		return plan.Match{Hosts: []string{"t"}, Paths: testplan.Words(3, 0, "/%d"), Headers: testplan.Descriptor("a=1"), Methods: testplan.Words(3, 0, "M%d")}
	}
	plans := hostilePlans(never, 300)
	shadow := hostilePlans(never, 10)
	for _, p := range shadow {
		p.Name, p.Mode = "a"+p.Name, plan.ModeShadow
	}
	elsewhere := hostilePlans(func(int, int) plan.Match {
		return plan.Match{Targets: []plan.Target{"HTTPRoute/t/r"}, Hosts: []string{"t"}, Paths: []string{"/*"}}
	}, 1)
	elsewhere[0].Name = "z"
	last := &plan.Plan{Namespace: "u", Name: "u", Mode: plan.ModeEnforce, Matches: []plan.Match{{Hosts: []string{"t"}}}}
	s := index.NewSnapshot(1, slices.Concat(plans, shadow, elsewhere, []*plan.Plan{last}))

	const examined = plan.MaxNamespaceMatches / plan.MaxMatches
	found := s.Match(&plan.Attributes{Host: "t", Path: "/x"})
	g.Expect(found).To(HaveLen(300 - examined + 1))
	for i, f := range found[:300-examined] {
		g.Expect(f).To(Equal(plan.Found{Plan: plans[examined+i], Descriptor: plan.AllDescriptors, LeftOut: true}))
	}
	g.Expect(found[300-examined].Plan).To(Equal(last), "another Namespace has room of its own")
	g.Expect(s.Match(&plan.Attributes{Host: "v", Path: "/x"})).To(BeEmpty())
}

// A client whose header is unreadable makes the index find every match for it. It cannot push out a policy.
func TestUnreadableValuesPushNoPolicyOut(t *testing.T) {
	g := NewWithT(t)
	plans := hostilePlans(func(i, _ int) plan.Match {
		return plan.Match{Hosts: []string{"t"}, Paths: []string{"/other"}, Methods: testplan.Words(3, 0, "M%d"), Headers: testplan.Descriptor(fmt.Sprint("a=", i))}
	}, 300)
	last := &plan.Plan{Namespace: "t", Name: "z", Mode: plan.ModeEnforce, Matches: []plan.Match{{Hosts: []string{"t"}, Headers: testplan.Descriptor("a=1")}}}
	s := index.NewSnapshot(1, append(plans, last))
	for _, f := range s.Match(&plan.Attributes{Host: "t", Path: "/x", Method: "GET", Headers: map[string]string{"a": strings.Repeat("1,", plan.MaxReadValues)}}) {
		g.Expect(f.Uncertain).To(BeTrue(), "%s", f.Plan.ID())
		if f.Plan == last {
			return
		}
	}
	t.Error("the last policy is not found")
}
