// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"cmp"
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

// describe returns the facts of this process, for operators.
func (e *Server) describe(ctx context.Context) *httptypes.Process {
	o := &e.options
	p := &httptypes.Process{Version: o.Version, Certificates: []httptypes.Certificate{}}
	if o.Redis != nil {
		redis := httptypes.Redis(*redisclient.Diagnose(ctx, o.Redis, o.RedisPrefix))
		p.Redis = &redis
	}
	for name, expires := range o.Expiry.Times() {
		p.Certificates = append(p.Certificates, httptypes.Certificate{Name: name, Expires: expires.UTC()})
	}
	slices.SortFunc(p.Certificates, func(a, b httptypes.Certificate) int { return cmp.Compare(a.Name, b.Name) })
	return p
}
