// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package weirgrpc

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-dev/weir/client"
)

// Interceptor checks the calls of a gRPC server. Limiter and Describe are required.
type Interceptor struct {
	Limiter *Limiter
	// Describe returns the descriptors of a call, from its full method and its context, which has
	// the peer and the metadata. A call without descriptors is not limited.
	Describe func(ctx context.Context, fullMethod string) []client.Descriptor
	// CountOutcome reserves one unit for each call and commits its status, for policies that compute their cost
	// from it (spec.reservations.cost), such as limits of failed logins. See HTTPStatus for the codes that they read. A
	// panic is a 500. The commit is sent once, in the background; if it is lost, the unit is spent.
	CountOutcome bool
	// OnError receives the errors of checks that Weir did not decide, and of commits that Weir did not answer, to
	// log or count them. It may be called after the call. Nil ignores them.
	OnError func(ctx context.Context, err error)
}

// Unary is a grpc.UnaryServerInterceptor. It checks each call.
func (i Interceptor) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	commit, err := i.check(ctx, info.FullMethod, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) })
	if err != nil {
		return nil, err
	}
	outcome := panicked
	defer func() { commit(outcome) }()
	answer, err := handler(ctx, request)
	outcome = outcomeOf(err)
	return answer, err
}

// Stream is a grpc.StreamServerInterceptor. It checks each stream once, when it begins.
func (i Interceptor) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	commit, err := i.check(stream.Context(), info.FullMethod, stream.SetHeader)
	if err != nil {
		return err
	}
	outcome := panicked
	defer func() { commit(outcome) }()
	err = handler(server, stream)
	outcome = outcomeOf(err)
	return err
}

// check returns the error of a denied call or, for an allowed one, what to call with its outcome. It sets the headers of
// the decision as metadata.
func (i Interceptor) check(ctx context.Context, fullMethod string, set func(metadata.MD) error) (commit func(codes.Code), err error) {
	commit = func(codes.Code) {}
	descriptors := i.Describe(ctx, fullMethod)
	if len(descriptors) == 0 {
		return commit, nil
	}
	asked := descriptors
	if i.CountOutcome {
		id := rand.Text()
		asked = withEntries(descriptors, client.Entry{Key: entryReservation, Value: id})
		commit = func(outcome codes.Code) { go i.commit(context.WithoutCancel(ctx), descriptors, id, outcome) }
	}
	d, err := i.Limiter.Check(ctx, 0, asked...)
	if err != nil && i.OnError != nil {
		i.OnError(ctx, err)
	}
	headers := metadata.MD{}
	for name, values := range d.Header {
		headers.Set(strings.ToLower(name), values...)
	}
	if err := set(headers); err != nil {
		return nil, err
	}
	return commit, Status(d).Err()
}

// Status returns the gRPC status of a decision: OK, or ResourceExhausted, PermissionDenied,
// InvalidArgument or Unavailable, with RetryInfo if waiting helps.
func Status(d client.Decision) *status.Status {
	if d.Allowed {
		return status.New(codes.OK, "")
	}
	denial := status.New(codeOf(d.Status), d.Detail)
	if d.RetryAfter <= 0 {
		return denial
	}
	detailed, err := denial.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	if err != nil {
		return denial // the details are optional
	}
	return detailed
}

// codeOf returns the gRPC code of the HTTP status of a denial.
func codeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	default:
		return codes.ResourceExhausted
	}
}
