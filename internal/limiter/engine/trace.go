// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-dev/weir/internal/limiter"
)

// startDecision starts the span of one decision and returns the function that ends it. Like
// logs, spans never hold keys. tracer may be nil.
func startDecision(ctx context.Context, tracer trace.Tracer, name string) (context.Context, func(*limiter.Decision, error)) {
	if tracer == nil {
		return ctx, func(*limiter.Decision, error) {}
	}
	ctx, span := tracer.Start(ctx, name)
	return ctx, func(d *limiter.Decision, err error) {
		defer span.End()
		switch {
		case err != nil:
			span.SetStatus(codes.Error, err.Error())
			return
		case d == nil || !span.IsRecording(): // d is nil during a panic
			return
		}
		span.SetAttributes(
			attribute.Bool("weir.allowed", d.Allowed), attribute.String("weir.reason", string(d.Reason)),
			attribute.Int64("weir.revision", d.Revision), attribute.StringSlice("weir.policies", policiesOf(d)))
		if d.Policy != "" {
			span.SetAttributes(attribute.String("weir.policy", d.Policy), attribute.String("weir.limit", d.Limit))
		}
		if d.Degraded != "" {
			span.SetAttributes(attribute.String("weir.degraded", string(d.Degraded)))
		}
	}
}

// policiesOf returns the policies whose limits took part, without duplicates.
func policiesOf(d *limiter.Decision) []string {
	var ids []string
	for i := range d.Limits {
		if id := d.Limits[i].Policy; len(ids) == 0 || ids[len(ids)-1] != id {
			ids = append(ids, id)
		}
	}
	return ids
}

// startChange starts the span of a commit, a renewal or a charge and returns the function that ends
// it, with whether anything changed. tracer may be nil.
func startChange(ctx context.Context, tracer trace.Tracer, name string) (context.Context, func(changed bool, err error)) {
	if tracer == nil {
		return ctx, func(bool, error) {}
	}
	ctx, span := tracer.Start(ctx, name)
	return ctx, func(changed bool, err error) {
		defer span.End()
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
			return
		}
		span.SetAttributes(attribute.Bool("weir.changed", changed))
	}
}
