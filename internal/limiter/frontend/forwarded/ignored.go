// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package forwarded

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Ignored counts and logs requests whose forwarding headers are ignored, because their peer is not
// a trusted proxy. A proxy that is missing from --trusted-proxies would otherwise make every
// request look like one from the proxy, for no host and path that a policy matches. A nil Ignored
// does nothing.
type Ignored struct {
	requests prometheus.Counter
	logger   *slog.Logger
	often    rate.Sometimes
}

// logInterval is the time between two log lines.
const logInterval = time.Minute

// NewIgnored registers the metric. The logger receives at most one line a minute.
func NewIgnored(r prometheus.Registerer, logger *slog.Logger) *Ignored {
	return &Ignored{
		requests: promauto.With(r).NewCounter(prometheus.CounterOpts{
			Name: "weir_forwarded_headers_ignored_total",
			Help: "Requests whose forwarding headers were ignored because the peer is not in --trusted-proxies.",
		}),
		logger: logger,
		often:  rate.Sometimes{Interval: logInterval},
	}
}

// Report reports the request of an untrusted peer if it has one of the headers.
func (i *Ignored) Report(peer netip.Addr, headers http.Header, names ...string) {
	if i == nil {
		return
	}
	for _, name := range names {
		if len(headers[name]) > 0 {
			i.ReportHeader(peer, name)
			return
		}
	}
}

// ReportHeader reports a request of an untrusted peer that has the header.
func (i *Ignored) ReportHeader(peer netip.Addr, name string) {
	if i == nil {
		return
	}
	i.requests.Inc()
	i.often.Do(func() {
		i.logger.Warn("Ignored forwarding headers of a peer that is not in --trusted-proxies", "peer", peer, "header", name)
	})
}

// TargetHeaders are the headers in which a proxy describes the request that it asks about.
var TargetHeaders = []string{plan.HeaderMethod, plan.HeaderURI, plan.HeaderHost, plan.HeaderOriginalMethod, plan.HeaderOriginalURI, plan.HeaderOriginalURL, plan.HeaderFor}
