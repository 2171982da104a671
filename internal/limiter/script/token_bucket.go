// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// TokenBucket admits while its bucket of Quota tokens holds the cost. Threshold tokens
// per Window are refilled continuously. The state is the deficit of the bucket and its
// time. See token_bucket.lua.
const TokenBucket Algorithm = "tb"

var tokenBucketKind = kind{
	code: TokenBucket, name: "TokenBucket", file: "token_bucket.lua", library: deficitLibrary,
	arguments: func(l *Limit) []int64 { return []int64{l.Threshold, l.ceiling} },
	ceiling:   func(l *Limit) int64 { return l.Quota },
	model: func(m *Model, e *Entry, l *Limit) counter {
		return state[tokenBucket](m, e.Key, l.stateKey(e.Policy.id))
	},
}

// tokenBucket is the reference model of token_bucket.lua.
type tokenBucket struct {
	missing deficit
	at      int64
	end     expiry
}

func (b *tokenBucket) alive(now int64) bool { return b.end.alive(now) }

// load returns the deficit now, and how far the bucket's own time, which is never before
// the last spend, is ahead of the server's.
func (b *tokenBucket) load(l *Limit, server int64) (missing deficit, lag int64) {
	if b.missing.Int == nil {
		return newDeficit(0, 0), 0
	}
	now := max(server, b.at)
	return b.missing.atMost(deficitOf(l.ceiling, l)).afterRefill(now-b.at, l), now - server
}

func (b *tokenBucket) used(_ *Entry, l *Limit, now int64) int64 {
	missing, _ := b.load(l, now)
	return missing.used(l)
}

func (b *tokenBucket) usedAfter(e *Entry, l *Limit, now, wait int64) int64 {
	missing, lag := b.load(l, now)
	if wait >= b.resetAfter(e, l, now) {
		return 0
	}
	return missing.afterRefill(wait-lag, l).used(l)
}

func (b *tokenBucket) timeToFit(e *Entry, l *Limit, now int64) int64 {
	missing, lag := b.load(l, now)
	if missing.used(l)+e.Cost <= l.Quota {
		return 0
	}
	return min(missing.timeToFit(e, l)+lag, b.resetAfter(e, l, now))
}

func (b *tokenBucket) resetAfter(e *Entry, l *Limit, now int64) int64 {
	missing, lag := b.load(l, now)
	if missing.Sign() == 0 {
		return 0
	}
	full := missing.resetAfter(l) + lag
	left, end := b.end.keepAlive(e, now, full)
	b.end = end
	return min(full, left)
}

func (b *tokenBucket) spend(e *Entry, l *Limit, now int64, _ bool) {
	missing, lag := b.load(l, now)
	b.missing, b.at = missing.plus(deficitOf(e.Cost, l)), now+lag
	b.end = expireAfter(now, b.missing.resetAfter(l)+lag)
}
