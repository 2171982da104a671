// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// Standby reports a process that may lead but makes no decisions, until ctx ends. The leader
// then knows which names of the installation the process accepts.
type Standby struct {
	Client       redis.UniversalClient
	Prefix       string
	Installation *Installation
	Name         string // unique in the installation and without a slash
	Logger       *slog.Logger
}

// Start sends the heartbeats. While Redis is unreachable it retries.
func (s *Standby) Start(ctx context.Context) error {
	scripts := newScripts(s.Client, s.Prefix, nil)
	heartbeats := heartbeats{scripts: scripts}
	own := func() *heartbeat {
		return &heartbeat{
			Owner: s.Installation.Name(), Kind: kindStandby, Name: s.Name,
			Accepts: s.Installation.names(),
		}
	}
	every := time.NewTicker(period)
	defer every.Stop()
	for {
		// A missed heartbeat is sent again; the leader reports that Redis does not answer.
		_, _, _ = heartbeats.send(ctx, own())
		select {
		case <-ctx.Done():
			scripts.leaveAtEnd(ctx, own(), s.Logger)
			return nil
		case <-every.C:
		}
	}
}
