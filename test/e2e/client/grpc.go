// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"strings"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// rateLimit is a response to Envoy.
type rateLimit struct {
	Code string `json:"code"`
}

// shouldRateLimit sends a request of Envoy's rate limit filter with one descriptor.
func shouldRateLimit(ctx context.Context, args []string) (*rateLimit, error) {
	flags := flag.NewFlagSet("grpc", flag.ContinueOnError)
	domain := flags.String("domain", "", "the domain")
	descriptor := &commonv3.RateLimitDescriptor{}
	flags.Func("entry", "an entry of the descriptor, as key=value; may be repeated", func(text string) error {
		key, value, found := strings.Cut(text, "=")
		if !found {
			return errors.New("must be key=value")
		}
		descriptor.Entries = append(descriptor.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() != 1 {
		return nil, errors.New("one address is needed")
	}
	conn, err := grpc.NewClient(flags.Arg(0), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is pending
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	got, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain: *domain, Descriptors: []*commonv3.RateLimitDescriptor{descriptor},
	}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	return &rateLimit{Code: got.GetOverallCode().String()}, nil
}
