// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// maxPolicies bounds the policies with summaries, and those with rates.
	maxPolicies = 500
	// maxExtraBytes bounds the text of keys beyond their first inlineBytes. If it is used up, only the
	// beginning of further long keys is kept.
	maxExtraBytes = 1 << 20
	// summaryPeriod is the length of the two periods.
	summaryPeriod = 5 * time.Minute
)

// periods are the summaries of one policy in the current and in the previous period.
type periods [2]summary

// summaries are the summaries of all policies.
type summaries struct {
	policies map[string]*periods
	extra    int // text of keys beyond inlineBytes
	// began is when the current period began, previous the one before; zero in the first period.
	began, previous time.Time
}

func newSummaries(now time.Time) *summaries {
	return &summaries{policies: map[string]*periods{}, began: now}
}

// add counts denials of the key, and returns the key as it is kept, or nil if there are too many
// policies.
func (s *summaries) add(policy string, k *keyText, count int64) *counted {
	p := s.policies[policy]
	if p == nil {
		if len(s.policies) >= maxPolicies {
			return nil
		}
		p = &periods{}
		s.policies[policy] = p
	}
	current := &p[0]
	current.total += count
	found := current.find(k)
	if found == nil {
		found = current.place()
		s.replace(found, k)
	}
	found.count += count
	return found
}

// replace sets the key of c. If the room for long keys is used up, it keeps only the beginning.
func (s *summaries) replace(c *counted, k *keyText) {
	s.extra -= extraOf(c.key)
	kept := k.text
	if extra := len(kept) - inlineBytes; s.extra+extra > maxExtraBytes {
		kept = kept[:min(len(kept), inlineBytes)]
	}
	c.key, c.hash, c.length = store.Key(kept), k.hash, k.length
	s.extra += extraOf(c.key)
}

// extraOf returns the bytes of the text beyond inlineBytes.
func extraOf(key store.Key) int { return max(0, len(key)-inlineBytes) }

// rotate begins a period if the current one has ended.
func (s *summaries) rotate(now time.Time) {
	if now.Sub(s.began) < summaryPeriod {
		return
	}
	for policy, p := range s.policies {
		for i := range p[1].keys {
			s.extra -= extraOf(p[1].keys[i].key)
		}
		p[1], p[0] = p[0], summary{}
		if p[1].total == 0 {
			delete(s.policies, policy)
		}
	}
	s.previous, s.began = s.began, now
}

// since returns when the denials began that the summaries count.
func (s *summaries) since() time.Time {
	if s.previous.IsZero() {
		return s.began
	}
	return s.previous
}
