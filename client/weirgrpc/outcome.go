// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package weirgrpc

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/client"
)

// The entries of descriptors that reserve and commit: see docs/grpc.md.
const (
	entryReservation  = "weir_reservation"
	entryCommit       = "weir_commit"
	entryResponseCode = "weir_response_code"
)

// panicked is the outcome of a call whose handler does not return.
const panicked = codes.Internal

// outcomeOf returns the code of the error of a handler, as a gRPC server determines it.
func outcomeOf(err error) codes.Code {
	s, isStatus := status.FromError(err)
	if !isStatus {
		s = status.FromContextError(err)
	}
	return s.Code()
}

// commit sends the outcome of a call whose reservation has the ID.
func (i Interceptor) commit(ctx context.Context, descriptors []client.Descriptor, id string, outcome codes.Code) {
	entries := []client.Entry{{Key: entryCommit, Value: id}, {Key: entryResponseCode, Value: strconv.Itoa(HTTPStatus(outcome))}}
	if _, err := i.Limiter.Check(ctx, 0, withEntries(descriptors, entries...)...); err != nil && i.OnError != nil {
		i.OnError(ctx, err)
	}
}

// withEntries returns copies of the descriptors with further entries.
func withEntries(descriptors []client.Descriptor, entries ...client.Entry) []client.Descriptor {
	all := make([]client.Descriptor, len(descriptors))
	for i, d := range descriptors {
		all[i].Entries = slices.Concat(d.Entries, entries)
	}
	return all
}

// httpStatuses are from https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto.
var httpStatuses = map[codes.Code]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499, // client closed request
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Unavailable:        http.StatusServiceUnavailable,
}

// HTTPStatus returns the status by which policies know the outcome of a call, their response.code: the HTTP mapping in
// google/rpc/code.proto, such as 401 for Unauthenticated and 403 for PermissionDenied. It is 500 for codes without
// a mapping.
func HTTPStatus(c codes.Code) int {
	if mapped, found := httpStatuses[c]; found {
		return mapped
	}
	return http.StatusInternalServerError
}
