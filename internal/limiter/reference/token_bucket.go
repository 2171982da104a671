// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/weir-dev/weir/internal/limiter/quota"

// tokenBucket is the reference model of token_bucket.lua.
type tokenBucket struct {
	missing deficit
	debt    deficit // the part of missing that no limit admitted
	at      int64
	end     expiry
	cut     int64 // units of debt that were cut
	holds   *holdSet
}

func (b *tokenBucket) alive(now int64) bool { return b.end.alive(now) }

// load returns the deficit now, and how far the bucket's own time, which is never before
// the last spend, is ahead of the server's.
func (b *tokenBucket) load(l *quota.Limit, server int64) (missing deficit, lag int64) {
	if b.missing.Int == nil {
		return newDeficit(0, 0), 0
	}
	now := max(server, b.at)
	return b.stored(l).afterRefill(now-b.at, l), now - server
}

// stored returns the deficit at the bucket's own time. A smaller quota leaves an empty bucket.
func (b *tokenBucket) stored(l *quota.Limit) deficit {
	return b.missing.atMost(deficitOf(l.Ceiling(), l).plus(b.debt))
}

func (b *tokenBucket) used(_ *quota.Entry, l *quota.Limit, now int64) int64 {
	missing, _ := b.load(l, now)
	return missing.used(l)
}

func (b *tokenBucket) usedAfter(e *quota.Entry, l *quota.Limit, now, wait int64) int64 {
	missing, lag := b.load(l, now)
	if wait >= b.resetAfter(e, l, now) {
		return 0
	}
	return missing.afterRefill(wait-lag, l).used(l)
}

func (b *tokenBucket) timeToFit(e *quota.Entry, l *quota.Limit, now int64) int64 {
	missing, lag := b.load(l, now)
	if missing.used(l)+e.Cost <= l.Quota {
		return 0
	}
	return min(missing.timeToFit(e, l)+lag, b.resetAfter(e, l, now))
}

func (b *tokenBucket) resetAfter(e *quota.Entry, l *quota.Limit, now int64) int64 {
	missing, lag := b.load(l, now)
	if missing.Sign() == 0 {
		return 0
	}
	full := missing.resetAfter(l) + lag
	left, end := b.end.keepAlive(e, now, full)
	b.end = end
	return min(full, left)
}

func (b *tokenBucket) spend(e *quota.Entry, l *quota.Limit, now int64, _ bool) {
	missing, lag := b.load(l, now)
	b.missing, b.at = missing.plus(deficitOf(e.Cost, l)), now+lag
	b.store(l, now)
}

// store cuts the debt and sets the expiry.
func (b *tokenBucket) store(l *quota.Limit, now int64) {
	empty := deficitOf(l.Ceiling(), l)
	var cut int64
	b.missing, cut = b.missing.cutDebt(empty, l)
	b.cut += cut
	b.debt = b.missing.minus(empty)
	b.end = expireAfter(now, b.missing.resetAfter(l)+b.at-now)
	if b.holds.set.Len() > 0 {
		b.end = max(b.end, b.holds.expiry())
	}
}

func (b *tokenBucket) cutDebt(*quota.Entry, *quota.Limit, int64) (cut int64) {
	cut, b.cut = b.cut, 0
	return cut
}

func (b *tokenBucket) settle(_ *quota.Entry, l *quota.Limit, units, at, _ int64) {
	left := newDeficit(0, 0)
	if b.missing.Int != nil {
		left = b.stored(l).afterRefill(at-b.at, l)
		at = max(at, b.at)
	}
	var cut int64
	b.missing, cut = left.plus(deficitOf(units, l)).cutDebt(deficitOf(l.Ceiling(), l), l)
	b.debt, b.at = b.missing.minus(deficitOf(l.Ceiling(), l)), at
	b.cut += cut
}

func (b *tokenBucket) endSettling(_ *quota.Entry, l *quota.Limit, now int64) {
	missing, lag := b.load(l, now)
	if missing.Sign() == 0 {
		*b = tokenBucket{cut: b.cut, holds: b.holds}
		return
	}
	b.missing, b.at = missing, now+lag
	b.store(l, now)
}

func (b *tokenBucket) keep(_ *quota.Entry, l *quota.Limit, now int64) {
	if missing, lag := b.load(l, now); missing.Sign() > 0 {
		b.end = max(expireAfter(now, missing.resetAfter(l)+lag), b.holds.expiry())
	}
}

func (b *tokenBucket) afterLast(l *quota.Limit, held, last, wait int64) int64 {
	return max(wait, last) + deficitOf(held, l).resetAfter(l)
}
