// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"cmp"
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/httpapi"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

// describe returns the facts of this process, for operators.
func (e *Endpoint) describe(ctx context.Context) *httpapi.Process {
	o := &e.options
	p := &httpapi.Process{Version: o.Version, Certificates: []httpapi.Certificate{}}
	if o.Redis != nil {
		redis := httpapi.Redis(*redisclient.Diagnose(ctx, o.Redis, o.RedisPrefix))
		p.Redis = &redis
	}
	for name, expires := range o.Expiry.Times() {
		p.Certificates = append(p.Certificates, httpapi.Certificate{Name: name, Expires: expires.UTC()})
	}
	slices.SortFunc(p.Certificates, func(a, b httpapi.Certificate) int { return cmp.Compare(a.Name, b.Name) })
	return p
}
