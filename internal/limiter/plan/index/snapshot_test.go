// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/test/testenv/seeds"
	"github.com/weir-dev/weir/test/testplan"
)

// Snapshots that are made from each other by random changes are the same as snapshots made at once, and stay so when
// further ones are made from them.
func TestChangedSnapshotsAreAsNewOnes(t *testing.T) {
	for seed := range seeds.InMemory(15) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			g, r := NewWithT(t), &generator{rand.New(rand.NewPCG(seed, 2))}
			size := 1 + r.IntN(150)
			records := map[string]plan.Record{}
			for range r.IntN(size) {
				p := r.record(size)
				records[p.ID()] = p
			}
			changed := index.NewSnapshotOf(0, slices.Collect(maps.Values(records)))
			for revision := range int64(200) {
				changes := map[string]plan.Record{}
				for range 1 + r.IntN(3) {
					record := r.record(size)
					if changes[record.ID()] = record; r.IntN(3) == 0 {
						changes[record.ID()] = nil
					}
				}
				before, previous := maps.Clone(records), changed
				for id, record := range changes {
					if records[id] = record; record == nil {
						delete(records, id)
					}
				}
				changed = previous.With(revision, changes)
				g.Expect(changed.Revision()).To(Equal(revision))
				if revision%20 == 0 {
					r.expectSame(g, changed, records)
					r.expectSame(g, previous, before)
					expectChanges(g, previous, changed)
				}
			}
		})
	}
}

// record returns a random record, one of size.
func (r *generator) record(size int) plan.Record {
	name := fmt.Sprintf("r%03d", r.IntN(size))
	switch r.IntN(10) {
	case 0:
		return &plan.KeyGroup{Namespace: "shop", Name: name}
	case 1:
		return &plan.Exception{Namespace: "shop", Name: name}
	}
	p := testplan.Valid()
	p.Namespace = []string{"shop", "shop-a", "shop.b", "shop0"}[r.IntN(4)]
	p.Name, p.Mode, p.Matches = name, []plan.Mode{plan.ModeEnforce, plan.ModeEnforce, plan.ModeShadow, plan.ModeDisabled}[r.IntN(4)], nil
	for range r.IntN(4) {
		p.Matches = append(p.Matches, r.match())
	}
	return p
}

// expectSame expects that the snapshot has the records and finds the same matches as a new one.
func (r *generator) expectSame(g *WithT, s *index.Snapshot, records map[string]plan.Record) {
	fresh := index.NewSnapshotOf(s.Revision(), slices.Collect(maps.Values(records)))
	g.Expect(s.Plans()).To(HaveExactElements(elements(fresh.Plans())...))
	g.Expect(s.Groups()).To(HaveExactElements(elements(fresh.Groups())...))
	g.Expect(s.Exceptions()).To(HaveExactElements(elements(fresh.Exceptions())...))
	g.Expect(slices.IsSorted(ids(s.Plans()))).To(BeTrue())
	for id, record := range records {
		if p, is := record.(*plan.Plan); is {
			g.Expect(s.Lookup(id)).To(BeIdenticalTo(p))
		}
	}
	for range 20 {
		a := r.request()
		found := s.Match(&a)
		g.Expect(found).To(Equal(fresh.Match(&a)), "%+v", a)
		g.Expect(slices.IsSortedFunc(found, func(a, b plan.Found) int {
			return slices.Index(s.Plans(), a.Plan) - slices.Index(s.Plans(), b.Plan)
		})).To(BeTrue(), "in the order of the IDs")
	}
}

// elements returns matchers of identical records.
func elements[R plan.Record](records []R) []any {
	matchers := make([]any, len(records))
	for i, r := range records {
		matchers[i] = BeIdenticalTo(r)
	}
	return matchers
}

// expectChanges expects that the changes between two snapshots lead from one to the other.
func expectChanges(g *WithT, before, after *index.Snapshot) {
	changed := 0
	for id, change := range after.ChangedPlans(before) {
		g.Expect(before.Lookup(id)).To(BeIdenticalTo(change.Before))
		g.Expect(after.Lookup(id)).To(BeIdenticalTo(change.After))
		changed++
	}
	differ := func(a, b *index.Snapshot) (n int) {
		for _, p := range a.Plans() {
			if b.Lookup(p.ID()) != p {
				n++
			}
		}
		return n
	}
	g.Expect(changed).To(And(BeNumerically(">=", differ(after, before)), BeNumerically("<=", differ(after, before)+differ(before, after))))
	g.Expect(after.HasGroupsOf(before)).To(Equal(slices.Equal(after.Groups(), before.Groups())))
	same := true
	for range after.ChangedExceptions(before) {
		same = false
	}
	g.Expect(same).To(Equal(slices.Equal(after.Exceptions(), before.Exceptions())))
}

// A plan that comes later is found by a value such as no plan before it has.
func TestLateValuesAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		match func(i int) plan.Match
		late  plan.Match
		a     plan.Attributes
	}{
		"a longer host": {
			func(i int) plan.Match { return plan.Match{Hosts: []string{fmt.Sprint(i, ".ab")}} },
			plan.Match{Hosts: []string{"*.longer.example"}},
			plan.Attributes{Host: "a.longer.example"},
		},
		"another length of a prefix": {
			func(i int) plan.Match { return plan.Match{Paths: []string{fmt.Sprint("/", i)}} },
			plan.Match{Paths: []string{"/longer/*"}},
			plan.Attributes{Path: "/longer/path"},
		},
		"another header": {
			func(i int) plan.Match { return plan.Match{Headers: testplan.Descriptor(fmt.Sprint("x-a=", i))} },
			plan.Match{Headers: testplan.Descriptor("x-b=1")},
			plan.Attributes{Headers: map[string]string{"x-b": "1", "x-c": "", "x-d": "", "x-e": ""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			late := testplan.Valid()
			late.Name, late.Matches = "late", []plan.Match{tc.late}
			s := index.NewSnapshot(1, plansWith(tc.match, 20)).With(2, map[string]plan.Record{late.ID(): late})
			found := s.Match(&tc.a)
			g.Expect(found).To(HaveLen(1))
			g.Expect(found[0].Plan).To(BeIdenticalTo(late))
		})
	}
}

// Plans that come one by one are found with as few entries as plans that come at once, and no plan makes too many copies.
func TestIndexNarrowsDownWhilePlansCome(t *testing.T) {
	for name, match := range oneFactMatches {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var s *index.Snapshot
			for _, p := range plansWith(match, 2000) {
				s = s.With(1, map[string]plan.Record{p.ID(): p})
			}
			g.Expect(s.Candidates(requestOfPlan7())).To(BeNumerically("<=", 16))
			g.Expect(s.Match(requestOfPlan7())).To(HaveLen(1))
		})
	}
}

// The index stays good when all plans are replaced by others, which differ by another fact.
func TestIndexNarrowsDownAfterAllPlansHaveChanged(t *testing.T) {
	g := NewWithT(t)
	s := index.NewSnapshot(1, plansWith(oneFactMatches["methods"], 2000))
	for _, fact := range []string{"hosts", "headers", "domains", "descriptor keys"} {
		for _, p := range plansWith(oneFactMatches[fact], 2000) {
			s = s.With(1, map[string]plan.Record{p.ID(): p})
		}
		g.Expect(s.Candidates(requestOfPlan7())).To(BeNumerically("<=", 16), fact)
	}
}
