// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// Waits between two sendings: each is twice as long as the one before, up to the longest, and
// shortened at random by up to a half.
const (
	firstWait   = 50 * time.Millisecond
	longestWait = 2 * time.Second
)

// resend sends a request that is safe to repeat until it is answered, and decodes the answer. It
// gives up when ctx ends or after ResendFor, and returns the last error.
func (c *Client) resend(ctx context.Context, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.resendFor)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := c.sendOnce(ctx, path, body, answer)
		if err == nil || !isTemporary(err) {
			return err
		}
		select {
		case <-time.After(wait - rand.N(wait/2)): //nolint:gosec // no secret
		case <-ctx.Done():
			return fmt.Errorf("weir: gave up sending: %w (%w)", err, ctx.Err())
		}
	}
}

// sendOnce sends the request and decodes the answer.
func (c *Client) sendOnce(ctx context.Context, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.post(ctx, path, body)
	if err != nil {
		return err
	}
	if r.status != http.StatusOK || json.Unmarshal(r.text, answer) != nil {
		return r.err()
	}
	return nil
}

// temporary are the statuses of servers without Redis or without Weir.
var temporary = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// isTemporary reports whether the same request may be answered later: nothing answered, or
// a server without Redis or without Weir.
func isTemporary(err error) bool {
	answer, isAnswer := errors.AsType[*Error](err)
	return !isAnswer || slices.Contains(temporary, answer.Status)
}
