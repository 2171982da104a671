// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetricsAreReadOnly(t *testing.T) {
	handler := MetricsHandler(prometheus.NewRegistry())
	for name, tc := range map[string]struct {
		method, path string
		status       int
	}{
		"read":         {http.MethodGet, "/metrics", 200},
		"write":        {http.MethodPost, "/metrics", 405},
		"another path": {http.MethodGet, "/", 404},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, http.NoBody))
			NewWithT(t).Expect(w.Code).To(Equal(tc.status))
		})
	}
}
