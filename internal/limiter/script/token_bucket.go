// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// TokenBucket admits while its bucket of Quota tokens holds the cost; Threshold
// tokens per Window come back, continuously. The state is what the bucket lacks
// and since when. See token_bucket.lua.
const TokenBucket Algorithm = "tb"

var tokenBucketKind = kind{
	code: TokenBucket, file: "token_bucket.lua", library: deficitLibrary,
	arguments: func(l *Limit) []int64 { return []int64{l.Threshold, l.ceiling} },
	ceiling:   func(l *Limit) int64 { return l.Quota },
	model: func(m *Model, e *Entry, l *Limit) counter {
		return state[tokenBucket](m, e.Key, l.stateKey(e.Policy.id))
	},
}

// tokenBucket is the reference model of token_bucket.lua.
type tokenBucket struct {
	lacks deficit
	at    int64
	end   expiry
}

func (b *tokenBucket) alive(now int64) bool { return b.end.alive(now) }

// load returns what the bucket lacks now, and how far its own time is ahead of
// the server's, which never runs back behind the last spending.
func (b *tokenBucket) load(l *Limit, server int64) (lacks deficit, lag int64) {
	if b.lacks.Int == nil {
		return product(0, 0), 0
	}
	now := max(server, b.at)
	return b.lacks.atMost(unitsOf(l.ceiling, l)).after(now-b.at, l), now - server
}

func (b *tokenBucket) held(_ *Entry, l *Limit, now int64) int64 {
	lacks, _ := b.load(l, now)
	return lacks.used(l)
}

func (b *tokenBucket) heldAfter(e *Entry, l *Limit, now, wait int64) int64 {
	lacks, lag := b.load(l, now)
	if wait >= b.idle(e, l, now) {
		return 0
	}
	return lacks.after(wait-lag, l).used(l)
}

func (b *tokenBucket) fit(e *Entry, l *Limit, now int64) int64 {
	lacks, lag := b.load(l, now)
	if lacks.used(l)+e.Cost <= l.Quota {
		return 0
	}
	return min(lacks.fit(e, l)+lag, b.idle(e, l, now))
}

func (b *tokenBucket) idle(e *Entry, l *Limit, now int64) int64 {
	lacks, lag := b.load(l, now)
	if lacks.Sign() == 0 {
		return 0
	}
	full := lacks.idle(l) + lag
	left, end := b.end.keepAlive(e, now, full)
	b.end = end
	return min(full, left)
}

func (b *tokenBucket) spend(e *Entry, l *Limit, now int64, _ bool) {
	lacks, lag := b.load(l, now)
	b.lacks, b.at = lacks.add(unitsOf(e.Cost, l)), now+lag
	b.end = expireAfter(now, b.lacks.idle(l)+lag)
}
