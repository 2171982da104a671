// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Each policy has a list of blocks: a sorted set of its blocked keys. The list is written after
// the decision, by the replica that made it, so it may lack a block and may contain a lifted one. The
// TTL of the block itself is the only truth, and Blocks asks for it.

const (
	// endSlack is how much longer a list keeps a block than its replica computed, which counts from
	// when its decision began.
	endSlack = time.Second
	// blocksPerCommand bounds the blocks of one command, and blocksPerPipeline the blocks of a pipeline.
	blocksPerCommand  = 100
	blocksPerPipeline = 200
)

// blockList returns the key of the list of the policy.
func (s *Store) blockList(policy string) string { return s.key(store.Key(policy), "blocked") }

// AddBlocks adds blocks to the list of the policy. Errors are *store.Error.
func (s *Store) AddBlocks(ctx context.Context, policy string, blocks []store.Block) error {
	for len(blocks) > 0 {
		n := min(len(blocks), blocksPerCommand)
		if err := s.addBlocks(ctx, policy, blocks[:n]); err != nil {
			return err
		}
		blocks = blocks[n:]
	}
	return nil
}

func (s *Store) addBlocks(ctx context.Context, policy string, blocks []store.Block) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	c := newFileCommand(blocksProgram(), []string{s.blockList(policy)}, store.MaxListedBlocks)
	for _, b := range blocks {
		c.args = append(c.args, string(b.Key), (b.Left + endSlack).Milliseconds())
	}
	_, err := s.execute(ctx, c)
	return storeError(ctx, err)
}

// RemoveBlock removes the key from the list of the policy. Errors are *store.Error.
func (s *Store) RemoveBlock(ctx context.Context, policy string, key store.Key) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return storeError(ctx, s.client.ZRem(ctx, s.blockList(policy), string(key)).Err())
}

// CountBlocks returns the number of keys in the list of each policy, also of lifted blocks. Errors
// are *store.Error.
func (s *Store) CountBlocks(ctx context.Context, policies []string) ([]int, error) {
	counts := make([]int, 0, len(policies))
	for len(policies) > 0 {
		n := min(len(policies), blocksPerPipeline)
		replies, err := s.pipeline(ctx, func(p redis.Pipeliner) {
			for _, policy := range policies[:n] {
				p.ZCard(ctx, s.blockList(policy))
			}
		})
		if err != nil {
			return nil, err
		}
		for _, reply := range replies {
			card, _ := reply.(*redis.IntCmd)
			counts = append(counts, int(card.Val()))
		}
		policies = policies[n:]
	}
	return counts, nil
}

// Blocks returns up to most live blocks of the policy, beginning with the last to end. more is true if there
// may be others. Errors are *store.Error.
func (s *Store) Blocks(ctx context.Context, policy string, most int) (live []store.Block, more bool, err error) {
	for rank := 0; rank < store.MaxListedBlocks; rank += blocksPerPipeline {
		keys, err := s.listedKeys(ctx, policy, rank)
		if err != nil {
			return nil, false, err
		}
		found, err := s.blocksOf(ctx, policy, keys)
		if err != nil {
			return nil, false, err
		}
		live = append(live, found...)
		if len(live) > most {
			return live[:most], true, nil
		}
		if len(keys) < blocksPerPipeline {
			return live, false, nil
		}
	}
	return live, false, nil
}

// FindBlock returns the key with the hash in the list of the policy, or "". Errors are *store.Error.
func (s *Store) FindBlock(ctx context.Context, policy, hash string) (store.Key, error) {
	for rank := 0; rank < store.MaxListedBlocks; rank += blocksPerPipeline {
		keys, err := s.listedKeys(ctx, policy, rank)
		if err != nil {
			return "", err
		}
		for _, key := range keys {
			if store.Key(key).Hash() == hash {
				return store.Key(key), nil
			}
		}
		if len(keys) < blocksPerPipeline {
			break
		}
	}
	return "", nil
}

// listedKeys returns up to blocksPerPipeline keys of the list, from the rank on.
func (s *Store) listedKeys(ctx context.Context, policy string, rank int) ([]string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	keys, err := s.client.ZRevRange(ctx, s.blockList(policy), int64(rank), int64(rank+blocksPerPipeline-1)).Result()
	return keys, storeError(ctx, err)
}

// blocksOf returns the live blocks of the keys.
func (s *Store) blocksOf(ctx context.Context, policy string, keys []string) ([]store.Block, error) {
	replies, err := s.pipeline(ctx, func(p redis.Pipeliner) {
		for _, key := range keys {
			name := s.key(store.Key(key), store.BlockName(policy))
			p.Get(ctx, name)
			p.PTTL(ctx, name)
		}
	})
	if err != nil {
		return nil, err
	}
	var live []store.Block
	for i, key := range keys {
		by, _ := replies[2*i].(*redis.StringCmd)
		left, _ := replies[2*i+1].(*redis.DurationCmd)
		if by.Err() != nil {
			continue
		}
		if limit, lasts := parseBlock(by.Val(), left.Val()); lasts >= 0 {
			live = append(live, store.Block{Key: store.Key(key), By: limit, Left: lasts + time.Millisecond})
		}
	}
	return live, nil
}

// blockMark begins the value of a block key while the key may have holds, see block.lua.
const blockMark = "+"

// parseBlock returns the limit that started the block, and its TTL, below 0 without a block, from the value and the TTL of
// a block key.
func parseBlock(value string, left time.Duration) (limit string, lasts time.Duration) {
	marked, isMarked := strings.CutPrefix(value, blockMark)
	if !isMarked {
		return value, left
	}
	longer, limit, isBlocked := strings.Cut(marked, ":")
	millis, err := strconv.ParseInt(longer, 10, 64)
	if !isBlocked || err != nil {
		return "", -1
	}
	return limit, left - time.Duration(millis)*time.Millisecond
}

// pipeline sends the commands that add appends. A missing key is not an error.
func (s *Store) pipeline(ctx context.Context, add func(redis.Pipeliner)) ([]redis.Cmder, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	p := s.client.Pipeline()
	add(p)
	if p.Len() == 0 {
		return nil, nil
	}
	replies, err := p.Exec(ctx)
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	for _, reply := range replies {
		if failed := reply.Err(); failed != nil && !errors.Is(failed, redis.Nil) {
			err = failed
		}
	}
	return replies, storeError(ctx, err)
}
