// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
)

const (
	// maxPartBytes bounds the keys of a part: all policies have fewer keys if there are many.
	maxPartBytes = 512 << 10
	// maxPartRates bounds the policies of a part that have rates: those that decided most.
	maxPartRates = 100
	// maxDecoded bounds the size of a part that is read.
	maxDecoded = 16 << 20
	// keyOverhead is the size of a key in a part without its text.
	keyOverhead = 48
)

// part is what one replica observed of some scopes.
type part struct {
	Replica string `json:"replica"`
	// Scopes are the scopes that the part covers, as scopeText returns them.
	Scopes  []string `json:"scopes"`
	Seconds int64    `json:"seconds"` // of the counts of keys
	Dropped int64    `json:"dropped,omitempty"`
	Slot    int64    `json:"slot"` // of the last sample
	// Since is when the replica began to count, in seconds since 1970; 0 if it is of an earlier release.
	Since int64  `json:"since,omitempty"`
	Total packed `json:"total"`
	// TotalCandidates and Candidates have the candidateValues of Total and Rates; nil if all are 0.
	TotalCandidates packed       `json:"totalCandidates,omitempty"`
	Policies        []policyPart `json:"policies"`
}

type policyPart struct {
	Policy   string    `json:"policy"`
	Keys     []keyPart `json:"keys,omitempty"` // by count, the largest first
	Unlisted int64     `json:"unlisted,omitempty"`
	Rates    packed    `json:"rates,omitempty"` // the decisionValues, nil without decisions

	Candidates packed `json:"candidates,omitempty"`
}

type keyPart struct {
	Key    string `json:"key"`
	Length int    `json:"length"` // of the key, of which only the beginning may be here
	Count  int64  `json:"count"`
	Error  int64  `json:"error,omitempty"`
}

// scopeText encodes a scope: "", "<namespace>/" or "<namespace>/<name>".
func scopeText(s limiter.Scope) string {
	if s.Policy != "" || s.Namespace == "" {
		return s.Policy
	}
	return s.Namespace + "/"
}

// contains reports whether the scope contains the policy.
func contains(scope, policy string) bool {
	return scope == policy || scope == "" || strings.HasSuffix(scope, "/") && strings.HasPrefix(policy, scope)
}

// covers reports whether the part covers the scope.
func (p *part) covers(scope string) bool {
	return slices.ContainsFunc(p.Scopes, func(s string) bool { return contains(s, scope) })
}

// part returns what this replica observed of the scopes until now.
func (c *Collector) part(scopes []string) *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.each != nil {
		c.rates.refresh(c.o.Now(), c.each)
	}
	wanted := func(policy string) bool {
		return slices.ContainsFunc(scopes, func(s string) bool { return contains(s, policy) })
	}
	p := &part{
		Replica: c.o.Replica, Scopes: scopes, Dropped: c.drops.sum(),
		Seconds: int64(c.o.Now().Sub(c.summaries.since()).Seconds()),
		Slot:    c.rates.slot, Since: c.began.Unix(),
	}
	p.Total, p.TotalCandidates = pack(&c.rates.total, c.rates.slot)
	byPolicy := map[string]*policyPart{}
	for policy, s := range c.summaries.policies {
		if wanted(policy) {
			keys, unlisted := mergeKeys(s[0].list(), s[1].list())
			byPolicy[policy] = &policyPart{Policy: policy, Keys: keys, Unlisted: unlisted}
		}
	}
	for _, policy := range c.rates.busiest(wanted) {
		if byPolicy[policy] == nil {
			byPolicy[policy] = &policyPart{Policy: policy}
		}
		of := byPolicy[policy]
		of.Rates, of.Candidates = pack(c.rates.policies[policy], c.rates.slot)
	}
	for _, policy := range slices.Sorted(maps.Keys(byPolicy)) {
		p.Policies = append(p.Policies, *byPolicy[policy])
	}
	p.shrink()
	return p
}

// busiest returns up to maxPartRates policies that decided most.
func (r *rates) busiest(wanted func(policy string) bool) []string {
	decided := map[string]uint64{}
	for policy, s := range r.policies {
		if !wanted(policy) {
			continue
		}
		for i := range s {
			for _, n := range s[i][:decisionValues] {
				decided[policy] += uint64(n)
			}
		}
	}
	policies := slices.SortedFunc(maps.Keys(decided), func(a, b string) int {
		return cmp.Or(cmp.Compare(decided[b], decided[a]), cmp.Compare(a, b))
	})
	return policies[:min(len(policies), maxPartRates)]
}

// list returns the summary as a list.
func (s *summary) list() keyList {
	l := keyList{unlisted: s.unlisted()}
	for i := range s.keys {
		k := &s.keys[i]
		l.keys = append(l.keys, keyPart{Key: string(k.key), Length: k.length, Count: k.count, Error: k.err})
	}
	return l
}

// shrink halves the keys of all policies until they fit into maxPartBytes.
func (p *part) shrink() {
	for most := summarySize; most > 1 && p.size() > maxPartBytes; most /= 2 {
		for i := range p.Policies {
			p.Policies[i].keep(most / 2)
		}
	}
}

func (p *part) size() int {
	size := 0
	for i := range p.Policies {
		for j := range p.Policies[i].Keys {
			size += len(p.Policies[i].Keys[j].Key) + keyOverhead
		}
	}
	return size
}

// keep drops all keys but the first.
func (p *policyPart) keep(most int) {
	if len(p.Keys) > most {
		p.Unlisted = max(p.Unlisted, p.Keys[most].Count)
		p.Keys = p.Keys[:most]
	}
}

// packed are rates as one varint for each number, the oldest sample first.
type packed []byte

// pack returns the decisionValues and the candidateValues of the samples. The latter are nil if all
// are 0.
func pack(s *series, slot int64) (decisions, candidates packed) {
	some := uint32(0)
	for i := range int64(limiter.RateSamples) {
		all := &s[(slot+1+i)%limiter.RateSamples]
		decisions = decisions.with(all[:decisionValues])
		candidates = candidates.with(all[decisionValues:])
		some |= all[decisionValues] | all[decisionValues+1]
	}
	if some == 0 {
		candidates = nil
	}
	return decisions, candidates
}

func (p packed) with(numbers []uint32) packed {
	for _, n := range numbers {
		p = binary.AppendUvarint(p, uint64(n))
	}
	return p
}

// addTo adds the numbers to lists of RateSamples. The last packed sample is shift samples older than
// the last one of the lists.
func (p packed) addTo(shift int64, lists ...[]int64) {
	for i := -shift; i < limiter.RateSamples-shift; i++ {
		for _, list := range lists {
			n, size := binary.Uvarint(p)
			if size <= 0 {
				return // shorter than expected: of another release
			}
			p = p[size:]
			if i >= 0 {
				list[i] += int64(n) //nolint:gosec // a sample has 32 bits
			}
		}
	}
}

// encode compresses the part.
func (p *part) encode() ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(w).Encode(p); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decodePart is the inverse of encode.
func decodePart(text []byte) (*part, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("part of a replica: %w", err)
	}
	p := &part{}
	if err := json.NewDecoder(io.LimitReader(r, maxDecoded)).Decode(p); err != nil {
		return nil, fmt.Errorf("part of a replica: %w", err)
	}
	return p, nil
}
