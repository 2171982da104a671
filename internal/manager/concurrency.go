// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import "net/http"

// limitConcurrency lets so many requests in at a time; others wait, until their caller gives
// up. Judging a policy takes CPU, anybody who reaches the port may ask for it, and
// decisions are made in the same process.
func limitConcurrency(atOnce int, next http.Handler) http.Handler {
	slots := make(chan struct{}, atOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			http.Error(w, "too many policies are being judged", http.StatusServiceUnavailable)
		}
	})
}
