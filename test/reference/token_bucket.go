// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/weir-dev/weir/internal/limiter/store"

// tokenBucket is the reference model of token_bucket.lua.
type tokenBucket struct {
	spent deficit
	debt  deficit // what commits and charges took beyond an empty bucket
	at    int64
	end   expiry
	cut   int64 // units of debt that were left out
	holds *holdSet

	past    *deficits // at the time at, while holds are settled
	current *deficits // what the call that has written is judged by
}

func (b *tokenBucket) alive(now int64) bool { return b.end.alive(now) }

// load returns the deficits now, and how far the bucket's own time, which is never before
// the last spend, is ahead of the server's.
func (b *tokenBucket) load(l *store.Limit, server int64) (now deficits, lag int64) {
	at := max(server, b.at)
	switch {
	case b.spent.Int == nil:
		return deficits{spent: newDeficit(0, 0)}, 0
	case b.current != nil:
		return *b.current, at - server
	}
	now, _ = b.stored(l).move(l, deficitOf(l.Ceiling(), l), at-b.at, 0)
	return now, at - server
}

// stored returns the deficits at the bucket's own time. For a smaller quota the bucket is empty.
func (b *tokenBucket) stored(l *store.Limit) deficits {
	stored := deficits{spent: b.spent}
	if most := deficitOf(l.Ceiling(), l).plus(b.debt); b.spent.Cmp(most.Int) > 0 {
		stored.cut, stored.byCut = most, true
	}
	return stored
}

// judged returns the deficit that judges a call now.
func (b *tokenBucket) judged(l *store.Limit, now int64) (missing deficit, lag int64) {
	loaded, lag := b.load(l, now)
	return loaded.judged(), lag
}

func (b *tokenBucket) used(_ *store.Entry, l *store.Limit, now int64) int64 {
	missing, _ := b.judged(l, now)
	return missing.used(l)
}

func (b *tokenBucket) usedAfter(e *store.Entry, l *store.Limit, now, wait int64) int64 {
	missing, lag := b.judged(l, now)
	if wait >= b.resetAfter(e, l, now) {
		return 0
	}
	return missing.afterRefill(wait-lag, l).used(l)
}

func (b *tokenBucket) timeToFit(e *store.Entry, l *store.Limit, now int64) int64 {
	missing, lag := b.judged(l, now)
	if missing.used(l)+e.Cost <= l.Quota {
		return 0
	}
	return min(missing.timeToFit(e, l)+lag, b.resetAfter(e, l, now))
}

func (b *tokenBucket) resetAfter(e *store.Entry, l *store.Limit, now int64) int64 {
	loaded, lag := b.load(l, now)
	missing := loaded.judged()
	if missing.Sign() == 0 {
		return 0
	}
	left, end := b.end.keepAlive(e, now, loaded.spent.resetAfter(l)+lag)
	b.end = end
	return min(missing.resetAfter(l)+lag, left)
}

func (b *tokenBucket) spend(e *store.Entry, l *store.Limit, now int64, _ bool) {
	loaded, lag := b.load(l, now)
	spent, leftOut := loaded.move(l, deficitOf(l.Ceiling(), l), 0, e.Cost)
	b.cut += leftOut
	b.store(l, spent, now+lag, now)
}

// store stores the deficits of the time at.
func (b *tokenBucket) store(l *store.Limit, d deficits, at, now int64) {
	b.spent, b.debt, b.at, b.current = d.spent, d.judged().minus(deficitOf(l.Ceiling(), l)), at, &d
	b.end = expireAfter(now, b.spent.resetAfter(l)+at-now)
	if b.holds.set.Len() > 0 {
		b.end = max(b.end, b.holds.expiry())
	}
}

func (b *tokenBucket) cutDebt(*store.Entry, *store.Limit, int64) (cut int64) {
	cut, b.cut = b.cut, 0
	return cut
}

func (b *tokenBucket) settle(_ *store.Entry, l *store.Limit, units, at, _ int64) {
	if b.past == nil {
		past := deficits{spent: newDeficit(0, 0)}
		if b.spent.Int != nil {
			past = b.stored(l)
		} else {
			b.at = at
		}
		b.past = &past
	}
	at = max(at, b.at)
	past, leftOut := b.past.move(l, deficitOf(l.Ceiling(), l), at-b.at, units)
	b.past, b.at, b.cut = &past, at, b.cut+leftOut
}

func (b *tokenBucket) endSettling(_ *store.Entry, l *store.Limit, now int64) {
	at := max(now, b.at)
	past, _ := b.past.move(l, deficitOf(l.Ceiling(), l), at-b.at, 0)
	b.past = nil
	if past.spent.Sign() == 0 {
		*b = tokenBucket{cut: b.cut, holds: b.holds}
		return
	}
	b.store(l, past, at, now)
}

func (b *tokenBucket) keep(_ *store.Entry, l *store.Limit, now int64) {
	if loaded, lag := b.load(l, now); loaded.spent.Sign() > 0 {
		b.end = max(expireAfter(now, loaded.spent.resetAfter(l)+lag), b.holds.expiry())
	}
}

func (b *tokenBucket) afterLast(l *store.Limit, held, last, wait int64) int64 {
	return max(wait, last) + deficitOf(held, l).resetAfter(l)
}
