// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Store keeps codes by their hash.
type Store interface {
	// Put keeps the grant for the given time.
	Put(ctx context.Context, hash string, g Grant, life time.Duration) error
	// Take returns the grant and forgets it. found is false if there is no such code, or no longer.
	Take(ctx context.Context, hash string) (g Grant, found bool, err error)
}

// redisStore keeps codes in Redis:
//
//	<prefix>1:probe:<hash>   the grant as JSON, for Life
type redisStore struct {
	client redis.UniversalClient
	prefix string
}

// NewRedisStore returns the store in Redis, with the prefix of every key.
func NewRedisStore(client redis.UniversalClient, prefix string) Store {
	return &redisStore{client: client, prefix: prefix + "1:probe:"}
}

// Put implements Store.
func (s *redisStore) Put(ctx context.Context, hash string, g Grant, life time.Duration) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return s.client.Set(ctx, s.prefix+hash, text, life).Err()
}

// Take implements Store.
func (s *redisStore) Take(ctx context.Context, hash string) (g Grant, found bool, err error) {
	text, err := s.client.GetDel(ctx, s.prefix+hash).Bytes()
	if errors.Is(err, redis.Nil) {
		return g, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	return g, err == nil, err
}

// maxCodes bounds the codes in the memory of this process.
const maxCodes = 1000

// errFull is returned by Put of memory.
var errFull = errors.New("too many codes are valid")

// memoryStore keeps codes in this process.
type memoryStore struct {
	now   func() time.Time
	mu    sync.Mutex
	codes map[string]kept // by hash
}

type kept struct {
	grant Grant
	ends  time.Time
}

// NewMemoryStore returns a store in this process, for a Weir without Redis.
func NewMemoryStore(now func() time.Time) Store {
	return &memoryStore{now: now, codes: map[string]kept{}}
}

// Put implements Store.
func (s *memoryStore) Put(_ context.Context, hash string, g Grant, life time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.codes, func(_ string, k kept) bool { return !now.Before(k.ends) })
	if len(s.codes) >= maxCodes {
		return errFull
	}
	s.codes[hash] = kept{grant: g, ends: now.Add(life)}
	return nil
}

// Take implements Store.
func (s *memoryStore) Take(_ context.Context, hash string) (g Grant, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, found := s.codes[hash]
	delete(s.codes, hash)
	if !found || !s.now().Before(k.ends) {
		return Grant{}, false, nil
	}
	return k.grant, true, nil
}
