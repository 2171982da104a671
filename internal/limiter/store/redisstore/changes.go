// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// changesChannel is the channel on which replicas announce the keys whose state they changed.
func (s *Store) changesChannel() string { return s.prefix + "changed" }

// AnnounceChange announces to all replicas that the state of the key was changed. Nothing reports a lost
// announcement.
func (s *Store) AnnounceChange(ctx context.Context, key store.Key) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	_ = s.client.Publish(ctx, s.changesChannel(), string(key)).Err()
}

// WatchChanges calls changed for each announced key until ctx ends, and missed for each new connection:
// announcements may have been lost before it.
func (s *Store) WatchChanges(ctx context.Context, changed func(store.Key), missed func()) {
	subscription := s.client.Subscribe(ctx, s.changesChannel())
	defer func() { _ = subscription.Close() }()
	messages := subscription.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return
		case message, open := <-messages:
			if !open {
				<-ctx.Done()
				return
			}
			if announcement, ok := message.(*redis.Message); ok {
				changed(store.Key(announcement.Payload))
			} else {
				missed()
			}
		}
	}
}
