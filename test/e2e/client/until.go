// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"time"

	"golang.org/x/sync/errgroup"
)

// poll is the time between two questions to one URL.
const poll = 2 * time.Millisecond

// arrival says when the last URL had the status.
type arrival struct {
	UnixMillis int64 `json:"unixMillis"`
}

// until asks all URLs again and again until each has answered with the status.
func until(ctx context.Context, args []string) (*arrival, error) {
	flags := flag.NewFlagSet("until", flag.ContinueOnError)
	var q question
	status := flags.Int("status", 200, "the status to wait for")
	patience := flags.Duration("patience", time.Minute, "how long to wait in all")
	if err := q.parse(flags, args); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, *patience)
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

func (q *question) await(ctx context.Context, status int) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if got, err := q.ask(ctx); err == nil && got.Status == status {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
