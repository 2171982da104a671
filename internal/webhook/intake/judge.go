// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bytes"
	"context"
	"maps"
	"net/http"
)

// judgeReview calls next in one of the slots. A slot is held neither while the request is read nor
// while the response is written, so that a slow client holds none.
func (in *Intake) judgeReview(w http.ResponseWriter, r *http.Request, next http.Handler) {
	select {
	case in.slots <- struct{}{}:
	case <-r.Context().Done():
		in.reject(w, &rejection{http.StatusServiceUnavailable, reasonQueue, "too many concurrent validations"})
		return
	}
	in.answer(r, next).writeTo(w)
}

// answer returns the response of next and frees the slot.
func (in *Intake) answer(r *http.Request, next http.Handler) *response {
	defer func() { <-in.slots }()
	ctx, cancel := context.WithTimeout(r.Context(), in.bounds.judge)
	defer cancel()
	answer := &response{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(answer, r.WithContext(ctx))
	return answer
}

// response holds a response in memory.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*response)(nil)

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *response) Write(text []byte) (int, error) { return r.body.Write(text) }

func (r *response) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()) // the client may be gone
}
