// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

const (
	// maxSearchedBlocks is how many blocks GET /v1/keys searches, those that end last.
	maxSearchedBlocks = 10_000
	// maxFoundKeys is how many keys it returns.
	maxFoundKeys = 1000
	// longestListedPart is the length of the longest part that lists contain as it is, in bytes.
	longestListedPart = 255
)

// keys searches the lists, for GET /v1/keys.
func (h *Handler) keys(ctx context.Context, q listQuery, rights *listRights) (any, error) {
	if err := h.validateSearch(&q); err != nil {
		return nil, err
	}
	return h.findKeys(ctx, q, rights)
}

// validateSearch rejects a search without a value, and the name of a part that the policy lacks.
func (h *Handler) validateSearch(q *listQuery) error {
	switch {
	case q.value == "":
		return inField("value", invalid("is required"))
	case q.part == "":
		return nil
	case q.Policy == "":
		return inField("part", invalid("needs policy"))
	}
	of, err := h.planOf(q.Policy)
	if err != nil {
		return err
	}
	var names []string
	for i := range of.Key {
		if strings.EqualFold(q.part, of.Key[i].Name()) {
			return nil
		}
		names = append(names, of.Key[i].Name())
	}
	if names == nil {
		return inField("part", invalid(of.ID()+" has no key"))
	}
	return inField("part", invalid(fmt.Sprintf("%s has no such part: its parts are %s", of.ID(), strings.Join(names, ", "))))
}

// search collects the keys that a search finds.
type search struct {
	*listQuery

	snapshot *index.Snapshot
	value    string // as lists contain it
	found    map[string]*httptypes.FoundKey
}

// findKeys returns the keys that the caller may list and in which the value appears.
func (h *Handler) findKeys(ctx context.Context, q listQuery, rights *listRights) (*httptypes.FoundKeys, error) {
	s := &search{listQuery: &q, snapshot: h.Engine.Snapshot(), value: q.value, found: map[string]*httptypes.FoundKey{}}
	if len(s.value) > longestListedPart {
		sum := sha256.Sum256([]byte(s.value))
		s.value = "#" + hex.EncodeToString(sum[:16])
	}
	out := &httptypes.FoundKeys{Keys: []httptypes.FoundKey{}}
	hidden, err := h.addBlocks(ctx, s, rights, out)
	if err != nil {
		return nil, err
	}
	_, err = h.visible(ctx, q.Scope, rights, &out.Reports, func(p *limiter.PolicyActivity, reveal bool) {
		for i := range p.Keys {
			if k := s.add(p.Policy, &p.Keys[i].Key, reveal); k != nil {
				k.Count, k.Error = p.Keys[i].Count, p.Keys[i].Error
			}
		}
	})
	if err != nil {
		return nil, err
	}
	out.HiddenPolicies = max(out.HiddenPolicies, hidden)
	for _, k := range s.found {
		out.Keys = append(out.Keys, *k)
	}
	slices.SortFunc(out.Keys, func(a, b httptypes.FoundKey) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), cmp.Compare(b.LeftMs, a.LeftMs), cmp.Compare(b.Count, a.Count),
			strings.Compare(a.KeyHash, b.KeyHash))
	})
	if len(out.Keys) > maxFoundKeys {
		out.Keys, out.Truncated = out.Keys[:maxFoundKeys], true
	}
	return out, nil
}

// addBlocks adds the blocked keys, and returns the number of hidden policies.
func (h *Handler) addBlocks(ctx context.Context, s *search, rights *listRights, out *httptypes.FoundKeys) (hidden int, err error) {
	list, reveals, hidden, err := h.visibleBlocks(ctx, s.Scope, rights, maxSearchedBlocks)
	if err != nil {
		return 0, err
	}
	out.Truncated = list.Truncated
	for i := range list.Blocks {
		b := &list.Blocks[i]
		if k := s.add(b.Policy, &b.Key, reveals[b.Policy]); k != nil {
			k.Blocked, k.Limit, k.LeftMs = true, b.By, answer.RoundUp(b.Left, time.Millisecond)
		}
	}
	return hidden, nil
}

// add returns the entry of the key if the value appears in it, else nil. Of a cut key it is not known.
func (s *search) add(policy string, key *limiter.ListedKey, reveal bool) *httptypes.FoundKey {
	of := s.snapshot.Lookup(policy)
	if of == nil || key.Cut || !of.MatchesPart(key.Parts, s.part, s.value) {
		return nil
	}
	id := policy + " " + key.Hash
	if s.found[id] == nil {
		s.found[id] = &httptypes.FoundKey{Policy: policy, ListedKey: listedKeyOf(of, key, reveal)}
	}
	return s.found[id]
}
