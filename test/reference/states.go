// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// counters return the state of a limit, by its algorithm.
var counters = map[store.Algorithm]func(m *Model, e *store.Entry, l *store.Limit) counter{
	store.FixedWindow: func(m *Model, e *store.Entry, l *store.Limit) counter {
		w := counterOf[fixedWindow](m, e, l)
		w.holds = m.holds(e)
		return w
	},
	store.SlidingLog: func(m *Model, e *store.Entry, l *store.Limit) counter {
		log := counterOf[slidingLog](m, e, l)
		log.largest = state[largestServed](m, e.Key, store.LargestName(l.StateName(e.Policy.ID())))
		return log
	},
	store.SlidingWindow: func(m *Model, e *store.Entry, l *store.Limit) counter { return counterOf[slidingWindow](m, e, l) },
	store.TokenBucket: func(m *Model, e *store.Entry, l *store.Limit) counter {
		b := counterOf[tokenBucket](m, e, l)
		b.holds = m.holds(e)
		return b
	},
	store.GCRA: func(m *Model, e *store.Entry, l *store.Limit) counter {
		g := counterOf[gcra](m, e, l)
		g.holds = m.holds(e)
		return g
	},
	store.Suppressed: func(m *Model, e *store.Entry, l *store.Limit) counter { return counterOf[suppressed](m, e, l) },
}

// counter returns the counter of the limit; nil for Concurrency, which has no state but the holds.
func (m *Model) counter(e *store.Entry, l *store.Limit) counter {
	if of := counters[l.Algorithm]; of != nil {
		return of(m, e, l)
	}
	return nil
}

func counterOf[S any, P interface {
	*S
	modelState
}](m *Model, e *store.Entry, l *store.Limit) P {
	return state[S, P](m, e.Key, l.StateName(e.Policy.ID()))
}

func (m *Model) block(e *store.Entry) *block {
	return state[block](m, e.Key, store.BlockName(e.Policy.ID()))
}

// state returns the state of a key, which it creates if needed.
func state[S any, P interface {
	*S
	modelState
}](m *Model, key store.Key, suffix string) P {
	full := stateName(key, suffix)
	if found, ok := m.states[full].(P); ok {
		return found
	}
	if m.states == nil {
		m.states = map[string]modelState{}
	}
	fresh := P(new(S))
	m.states[full] = fresh
	return fresh
}

func stateName(key store.Key, suffix string) string { return "{" + string(key) + "}:" + suffix }

// expiry is the last millisecond since 1970 in which a key exists, as in Redis. The zero
// expiry has passed.
type expiry int64

func expireIn(now int64, d time.Duration) expiry {
	return expiry(now/1000 + max(d.Milliseconds()-1, 1))
}

// expireAfter returns the expiry of a state that is needed for the given microseconds.
func expireAfter(now, micros int64) expiry {
	return expiry(now/1000 + min((micros+999)/1000+1, 5e12))
}

func (x expiry) alive(now int64) bool { return now/1000 <= int64(x) }

// left returns the microseconds until the key expires: PTTL+1 in Redis.
func (x expiry) left(now int64) int64 { return (int64(x) - now/1000 + 1) * 1000 }

// keepAlive returns the microseconds until the state expires, and its expiry. For an
// entry that is not a peek, it extends a state that expires before need, as it can
// after an edit.
func (x expiry) keepAlive(e *store.Entry, now, need int64) (int64, expiry) {
	if left := x.left(now); left >= need || e.Peek {
		return left, x
	}
	return need, expireAfter(now, need)
}
