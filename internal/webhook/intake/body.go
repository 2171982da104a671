// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"net/http"
)

// reserve takes the memory for the body, which release returns. It waits for other bodies,
// first bodies of the same source, so that one source never waits in front of others.
//
// The whole length is taken before the first byte is read: bodies that grow side by side
// could each hold a part of the memory and wait for the rest.
func (in *Intake) reserve(r *http.Request, s *source) (release func(), rejected *rejection) {
	length := r.ContentLength
	if length < 0 {
		return nil, &rejection{http.StatusLengthRequired, reasonSize, "the request has no Content-Length"}
	}
	if length > in.bounds.body {
		return nil, &rejection{http.StatusRequestEntityTooLarge, reasonSize, "the body is larger than 4 MiB"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), in.bounds.read)
	defer cancel()
	full := &rejection{http.StatusServiceUnavailable, reasonMemory, "other requests take the memory for bodies"}
	if s.bodies.Acquire(ctx, length) != nil {
		return nil, full
	}
	if in.bodies.Acquire(ctx, length) != nil {
		s.bodies.Release(length)
		return nil, full
	}
	return func() {
		in.bodies.Release(length)
		s.bodies.Release(length)
	}, nil
}
