// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// HoldSet is the holds of a key in a policy: open ones, and ended ones that are not spent yet. A nil set is
// empty. Times are microseconds since 1970.
type HoldSet struct {
	// Windows are the last milliseconds of the latest windows of FixedWindow limits, by name of the state.
	Windows map[string]int64

	byID  map[string]*hold
	ends  holdHeap
	units int64
	until int64 // when the holds are not needed any more
}

type hold struct {
	id         string
	units, end int64
	place      int // in HoldSet.ends
}

func newHoldSet() *HoldSet {
	return &HoldSet{Windows: map[string]int64{}, byID: map[string]*hold{}}
}

// Len returns the number of holds.
func (h *HoldSet) Len() int64 {
	if h == nil {
		return 0
	}
	return int64(len(h.ends))
}

// Units returns the units of all holds.
func (h *HoldSet) Units() int64 {
	if h == nil {
		return 0
	}
	return h.units
}

// IsNeeded reports whether a limit may still need the holds.
func (h *HoldSet) IsNeeded(now int64) bool { return h.Len() > 0 && now < h.until }

// LastMilli returns the last millisecond in which the holds are kept, and what settling them needs.
func (h *HoldSet) LastMilli() int64 { return (h.until+999)/1000 + 1 }

// find returns the hold with the ID, or nil, and whether it is open.
func (h *HoldSet) find(id string, now int64) (found *hold, open bool) {
	if h == nil {
		return nil, false
	}
	found = h.byID[id]
	return found, found != nil && found.end > now
}

func (h *HoldSet) add(id string, units, end int64) {
	id = strings.Clone(id) // it may be a part of a large request
	added := &hold{id: id, units: units, end: end}
	h.byID[id] = added
	heap.Push(&h.ends, added)
	h.units += units
}

func (h *HoldSet) renew(of *hold, end int64) {
	of.end = end
	heap.Fix(&h.ends, of.place)
}

func (h *HoldSet) remove(of *hold) {
	heap.Remove(&h.ends, of.place)
	delete(h.byID, of.id)
	h.units -= of.units
}

// HasEnded reports whether there are ended holds to settle.
func (h *HoldSet) HasEnded(now int64) bool { return h.Len() > 0 && h.ends[0].end <= now }

// Settle removes the first holds that have ended, at most store.MostSettled, and calls spend for each. It returns
// their number.
func (h *HoldSet) Settle(now int64, spend func(id string, units, end int64)) (settled int64) {
	for h.HasEnded(now) && settled < store.MostSettled {
		ended := h.ends[0]
		h.remove(ended)
		spend(ended.id, ended.units, ended.end)
		settled++
	}
	return settled
}

// List returns the open holds that end first, at most the given number.
func (h *HoldSet) List(now int64, most int) []store.Hold {
	if h == nil {
		return nil
	}
	open := slices.DeleteFunc(slices.Clone(h.ends), func(other *hold) bool { return other.end <= now })
	slices.SortFunc(open, compareEnds)
	holds := make([]store.Hold, min(most, len(open)))
	for i := range holds {
		holds[i] = store.Hold{ID: open[i].id, Units: open[i].units, EndsIn: Duration(open[i].end - now)}
	}
	return holds
}

// holdHeap orders holds by their ends.
type holdHeap []*hold

// Len, Less, Swap, Push and Pop are for container/heap.
func (h *holdHeap) Len() int { return len(*h) }

func (h *holdHeap) Less(i, j int) bool { return compareEnds((*h)[i], (*h)[j]) < 0 }

func (h *holdHeap) Swap(i, j int) {
	list := *h
	list[i], list[j] = list[j], list[i]
	list[i].place, list[j].place = i, j
}

func compareEnds(a, b *hold) int {
	return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id))
}

func (h *holdHeap) Push(x any) {
	added := x.(*hold) //nolint:forcetypeassert // only holds are pushed
	added.place = len(*h)
	*h = append(*h, added)
}

func (h *holdHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
