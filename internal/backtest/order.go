// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"cmp"
	"slices"
)

const (
	second = 1_000_000 // microseconds
	// window is the number of seconds within which lines are put in order: servers log a request
	// when it ends.
	window = 30
	// maxHeld bounds the lines that wait for earlier ones.
	maxHeld = 1_000_000
)

// order puts entries in the order of their times, and spreads the entries of one second evenly over it
// if their times have no fractions.
type order struct {
	emit func(*entry) error
	most int // entries that may wait

	seconds [window + 1][]entry // of the last seconds, by second modulo their number
	newest  int64               // second
	floor   int64               // the earliest second that is not emitted
	held    int
	late    int64 // entries that came too late; they are treated as from the earliest second
}

func (o *order) bucket(s int64) *[]entry { return &o.seconds[s%int64(len(o.seconds))] }

// add adds the next entry of the log.
func (o *order) add(e *entry) error {
	s := e.micros / second
	if o.newest == 0 {
		o.newest, o.floor = s, max(0, s-window)
	}
	if s > o.newest {
		if err := o.flush(s - window); err != nil {
			return err
		}
		o.newest = s
	}
	if s < o.floor {
		o.late++
		s = o.floor
		e.micros = s * second
		o.newest = max(o.newest, s)
	}
	bucket := o.bucket(s)
	*bucket = append(*bucket, *e)
	for o.held++; o.held > o.most; {
		if err := o.flush(o.floor + 1); err != nil {
			return err
		}
	}
	return nil
}

// flush emits the entries before the second end.
func (o *order) flush(end int64) error {
	for ; o.floor < end && o.floor <= o.newest; o.floor++ {
		if err := o.emitSecond(o.floor); err != nil {
			return err
		}
	}
	o.floor = max(o.floor, end)
	return nil
}

// finish emits all entries.
func (o *order) finish() error { return o.flush(o.newest + 1) }

func (o *order) emitSecond(s int64) error {
	bucket := o.bucket(s)
	entries := *bucket
	if slices.ContainsFunc(entries, func(e entry) bool { return e.micros%second != 0 }) {
		slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.micros, b.micros) })
	} else {
		for i := range entries {
			entries[i].micros += int64(i) * second / int64(len(entries))
		}
	}
	for i := range entries {
		if err := o.emit(&entries[i]); err != nil {
			return err
		}
	}
	o.held -= len(entries)
	clear(entries)
	*bucket = entries[:0]
	return nil
}
