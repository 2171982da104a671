// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"time"

	"golang.org/x/sync/errgroup"
)

// pollInterval is the time between two requests to one URL.
const pollInterval = 2 * time.Millisecond

// arrival is when the last URL first returned the status.
type arrival struct {
	UnixMillis int64 `json:"unixMillis"`
}

// until polls all URLs until each returns the status.
func until(ctx context.Context, args []string) (*arrival, error) {
	flags := flag.NewFlagSet("until", flag.ContinueOnError)
	var q requestSpec
	status := flags.Int("status", 200, "status to wait for")
	limit := flags.Duration("patience", time.Minute, "timeout for all URLs together")
	if err := q.parse(flags, args); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, url := range flags.Args() {
		group.Go(func() error {
			one := q
			one.url = url
			return one.await(ctx, *status)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return &arrival{UnixMillis: time.Now().UnixMilli()}, nil //nolint:forbidigo // a stopwatch
}

func (q *requestSpec) await(ctx context.Context, status int) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if got, err := q.send(ctx); err == nil && got.Status == status {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
