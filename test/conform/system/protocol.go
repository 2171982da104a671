// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"strconv"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// domain is the domain of all requests over Envoy's rate limit protocol.
const domain = "conform"

// connections is the number of connections to an instance: one would be the bottleneck of 400 callers.
const connections = 4

// envoyClient asks over Envoy's rate limit protocol, envoy.service.ratelimit.v3.
type envoyClient struct {
	clients []service.RateLimitServiceClient
	// joined puts the entries of all descriptors into one.
	joined bool
	next   chan int
}

func (e *Environment) connect(address string, options ...grpc.DialOption) ([]*grpc.ClientConn, error) {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	var conns []*grpc.ClientConn
	for range connections {
		conn, err := grpc.NewClient(address, options...)
		if err != nil {
			return nil, err
		}
		e.onClose(conn.Close)
		conns = append(conns, conn)
	}
	return conns, nil
}

func (e *Environment) newEnvoyClient(address string, joined bool) (*envoyClient, error) {
	conns, err := e.connect(address)
	if err != nil {
		return nil, err
	}
	c := &envoyClient{joined: joined, next: turns()}
	for _, conn := range conns {
		c.clients = append(c.clients, service.NewRateLimitServiceClient(conn))
	}
	return c, nil
}

// turns returns a channel that passes the numbers of the connections on, in turn.
func turns() chan int {
	next := make(chan int, connections)
	for i := range connections {
		next <- i
	}
	return next
}

// turn returns the number of the next connection.
func turn(next chan int) int {
	i := <-next
	next <- i
	return i
}

// Ask implements Client.
func (c *envoyClient) Ask(ctx context.Context, r Request) (Answer, error) {
	response, err := c.clients[turn(c.next)].ShouldRateLimit(ctx, c.requestOf(r))
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Admitted: response.GetOverallCode() == service.RateLimitResponse_OK}
	for _, status := range response.GetStatuses() {
		if status.GetCode() == service.RateLimitResponse_OVER_LIMIT && status.GetDurationUntilReset() != nil {
			reset := status.GetDurationUntilReset().AsDuration()
			if a.Reset == nil || reset > *a.Reset {
				a.Reset = &reset
			}
		}
	}
	for _, header := range response.GetResponseHeadersToAdd() {
		if seconds, err := strconv.Atoi(header.GetValue()); err == nil && strings.EqualFold(header.GetKey(), "retry-after") {
			a.RetryAfter = new(time.Duration(seconds) * time.Second)
		}
	}
	return a, nil
}

func (c *envoyClient) requestOf(r Request) *service.RateLimitRequest {
	request := &service.RateLimitRequest{Domain: domain, HitsAddend: r.Units}
	for i, d := range r.Descriptors {
		if i == 0 || !c.joined {
			request.Descriptors = append(request.Descriptors, &ratelimit.RateLimitDescriptor{})
		}
		last := request.GetDescriptors()[len(request.GetDescriptors())-1]
		for _, entry := range d {
			last.Entries = append(last.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: entry.Key, Value: entry.Value})
		}
	}
	return request
}
