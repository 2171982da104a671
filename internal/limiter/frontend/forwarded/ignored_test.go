// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package forwarded

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestIgnoredHeadersAreCountedAndLoggedOnce(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	var log bytes.Buffer
	ignored := NewIgnored(registry, slog.New(slog.NewTextHandler(&log, nil)))
	peer := netip.MustParseAddr("203.0.113.7")
	ignored.Report(peer, http.Header{"Accept": {"x"}}, TargetHeaders...)
	g.Expect(testutil.ToFloat64(ignored.requests)).To(BeZero())
	for range 100 {
		ignored.Report(peer, http.Header{plan.HeaderURI: {"/x"}, plan.HeaderFor: {"192.0.2.1"}}, TargetHeaders...)
	}
	g.Expect(testutil.ToFloat64(ignored.requests)).To(Equal(100.0))
	g.Expect(strings.Count(log.String(), "\n")).To(Equal(1))
	g.Expect(log.String()).To(And(ContainSubstring("peer=203.0.113.7"), ContainSubstring("header=X-Forwarded-Uri")))
	(*Ignored)(nil).Report(peer, http.Header{plan.HeaderURI: {"/x"}}, TargetHeaders...)
}
