// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package weirgrpc_test

import (
	"context"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/weir-dev/weir/client"
	"github.com/weir-dev/weir/client/weirgrpc"
)

func ExampleInterceptor() {
	weir, err := grpc.NewClient("weir.weir-system.svc:8081", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := weirgrpc.New(weirgrpc.Options{Conn: weir, Domain: "shop", FailMode: client.Open})
	if err != nil {
		log.Fatal(err)
	}
	limit := weirgrpc.Interceptor{
		Limiter: limiter,
		Describe: func(ctx context.Context, fullMethod string) []client.Descriptor {
			entries := []client.Entry{{Key: "method", Value: fullMethod}}
			for _, user := range metadata.ValueFromIncomingContext(ctx, "user-id") { // set by your authentication
				entries = append(entries, client.Entry{Key: "user_id", Value: user})
			}
			return []client.Descriptor{{Entries: entries}}
		},
		OnError: func(_ context.Context, err error) { log.Print(err) },
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
	_ = server // register services and serve
}
