// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/steps"
)

// maxListedBytes bounds the text of the keys in all lists. Above it, further blocks are not listed.
const maxListedBytes = 16 << 20

// blockLists lists blocks by policy, as the lists in Redis do. The store itself knows callers
// only by hash.
type blockLists struct {
	mu    sync.Mutex
	ends  map[string]map[store.Key]int64 // by policy: when the block of the key ends, in milliseconds
	bytes int
}

// AddBlocks adds blocks to the list of the policy. It returns no error.
func (s *Store) AddBlocks(_ context.Context, policy string, blocks []store.Block) error {
	now := s.micros() / 1000
	l := &s.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends == nil {
		l.ends = map[string]map[store.Key]int64{}
	}
	list := l.ends[policy]
	if list == nil {
		list = map[store.Key]int64{}
		l.ends[policy] = list
	}
	for _, b := range blocks {
		end, listed := list[b.Key]
		if !listed {
			if l.bytes+len(b.Key) > maxListedBytes {
				continue
			}
			l.bytes += len(b.Key)
			b.Key = store.Key(strings.Clone(string(b.Key)))
		}
		list[b.Key] = max(end, now+b.Left.Milliseconds()+1)
	}
	l.trim(policy, now)
	return nil
}

// trim removes ended blocks from the list and, above store.MaxListedBlocks, those that end first.
func (l *blockLists) trim(policy string, now int64) {
	list := l.ends[policy]
	for key, end := range list {
		if end <= now {
			l.remove(policy, key)
		}
	}
	if excess := len(list) - store.MaxListedBlocks; excess > 0 {
		for _, key := range l.keys(policy)[store.MaxListedBlocks:] {
			l.remove(policy, key)
		}
	}
}

func (l *blockLists) remove(policy string, key store.Key) {
	list := l.ends[policy]
	if _, listed := list[key]; !listed {
		return
	}
	delete(list, key)
	l.bytes -= len(key)
	if len(list) == 0 {
		delete(l.ends, policy)
	}
}

// keys returns the keys of the list, beginning with the block that ends last.
func (l *blockLists) keys(policy string) []store.Key {
	list := l.ends[policy]
	return slices.SortedFunc(maps.Keys(list), func(a, b store.Key) int {
		return cmp.Or(cmp.Compare(list[b], list[a]), cmp.Compare(a, b))
	})
}

// RemoveBlock removes the key from the list of the policy. It returns no error.
func (s *Store) RemoveBlock(_ context.Context, policy string, key store.Key) error {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	s.lists.remove(policy, key)
	return nil
}

// CountBlocks returns the number of keys in the list of each policy, also of lifted blocks. It
// returns no error.
func (s *Store) CountBlocks(_ context.Context, policies []string) ([]int, error) {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	counts := make([]int, len(policies))
	for i, policy := range policies {
		s.lists.trim(policy, s.micros()/1000)
		counts[i] = len(s.lists.ends[policy])
	}
	return counts, nil
}

// Blocks returns up to most live blocks of the policy, the last to end first, and whether there
// are more. It returns no error.
func (s *Store) Blocks(_ context.Context, policy string, most int) (live []store.Block, more bool, err error) {
	s.lists.mu.Lock()
	keys := s.lists.keys(policy)
	s.lists.mu.Unlock()
	for _, key := range keys {
		b, found := s.blockOf(policy, key)
		if !found {
			continue
		}
		if len(live) == most {
			return live, true, nil
		}
		live = append(live, b)
	}
	return live, false, nil
}

// blockOf returns the live block of the key.
func (s *Store) blockOf(policy string, key store.Key) (b store.Block, found bool) {
	sh, _, c := s.lockCaller(policy, key)
	defer sh.mu.Unlock()
	now := s.micros()
	block, by := sh.blockOf(c, now)
	if block == nil {
		return b, false
	}
	return store.Block{Key: key, By: by, Left: steps.Duration(block.left(now))}, true
}

// FindBlock returns the key with the hash in the list of the policy, or "". It returns no error.
func (s *Store) FindBlock(_ context.Context, policy, hash string) (store.Key, error) {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	for key := range s.lists.ends[policy] {
		if key.Hash() == hash {
			return key, nil
		}
	}
	return "", nil
}
