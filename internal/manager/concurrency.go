// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import "net/http"

// limitConcurrency serves at most limit requests at a time. Further requests wait for a
// free slot; a request whose client gives up first gets 503 Service Unavailable.
// Validating a policy takes CPU from the decisions of this process, and any client that
// reaches the port can request it.
func limitConcurrency(limit int, next http.Handler) http.Handler {
	slots := make(chan struct{}, limit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			http.Error(w, "too many concurrent validations", http.StatusServiceUnavailable)
		}
	})
}
