// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// report is the result of a load. The times include all responses, of any status.
type report struct {
	Sent     int            `json:"sent"`
	Statuses map[string]int `json:"statuses"`
	Errors   map[string]int `json:"errors"`
	P50      float64        `json:"p50Millis"`
	P99      float64        `json:"p99Millis"`
	Max      float64        `json:"maxMillis"`
}

// load sends requests at a steady rate. A request without a response does not delay the
// others, so a server that hangs does not slow the load down.
func load(ctx context.Context, args []string) (*report, error) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	var q requestSpec
	rate := flags.Int("rate", 100, "requests per second")
	duration := flags.Duration("duration", 10*time.Second, "length of the load; shorter if the process is stopped")
	if err := q.parse(flags, args); err != nil {
		return nil, err
	}
	if *rate < 1 || *rate > 10_000 {
		return nil, errors.New("-rate: must be 1 to 10000")
	}
	sending, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	// Wait for all responses, even if the process is stopped.
	requests := context.WithoutCancel(ctx)

	t := &tally{report: report{Statuses: map[string]int{}, Errors: map[string]int{}}}
	var group sync.WaitGroup
	ticker := time.NewTicker(time.Second / time.Duration(*rate))
	defer ticker.Stop()
	for sending.Err() == nil {
		select {
		case <-sending.Done():
		case <-ticker.C:
			group.Go(func() {
				start := time.Now() //nolint:forbidigo // a stopwatch
				got, err := q.send(requests)
				t.count(got, err, time.Since(start))
			})
		}
	}
	group.Wait()
	return t.finish(), nil
}

// tally counts responses.
type tally struct {
	mu     sync.Mutex
	report report
	took   []time.Duration
}

func (t *tally) count(got *answer, err error, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Sent++
	if err != nil {
		t.report.Errors[kind(err)]++
		return
	}
	t.report.Statuses[strconv.Itoa(got.Status)]++
	t.took = append(t.took, took)
}

func (t *tally) finish() *report {
	if len(t.took) > 0 {
		slices.Sort(t.took)
		at := func(percent int) float64 {
			return float64(t.took[(len(t.took)-1)*percent/100].Microseconds()) / 1000
		}
		t.report.P50, t.report.P99, t.report.Max = at(50), at(99), at(100)
	}
	return &t.report
}

// kind returns a word for the kind of error, so that errors of one kind are counted
// together.
func kind(err error) string {
	var lookup *net.DNSError
	var urlError *url.Error
	switch {
	case errors.As(err, &lookup):
		return "name"
	case errors.As(err, &urlError) && urlError.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	default:
		return err.Error()
	}
}
