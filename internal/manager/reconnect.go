// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// cacheClient returns the HTTP client of the caches, see reconnector.
func cacheClient(config *rest.Config, logger *slog.Logger) (*http.Client, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &reconnector{next: next, pause: apiRetry, logger: logger}
	})
	return rest.HTTPClientFor(config)
}

// reconnector repeats reads while no API server can be reached. The reflectors of client-go, whose
// pauses grow to a minute, would find a policy that was edited after an outage as late as that. A
// read that was answered, also with an error, is not repeated: the reflectors pause for an API server
// that is overloaded.
type reconnector struct {
	next        http.RoundTripper
	pause       time.Duration // between two attempts of one read, at least; at most twice as long
	logger      *slog.Logger
	unreachable atomic.Bool
}

func (r *reconnector) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := r.next.RoundTrip(request)
		if err == nil {
			if r.unreachable.CompareAndSwap(true, false) {
				r.logger.Info("The API server can be reached again")
			}
			return response, nil
		}
		if request.Method != http.MethodGet || request.Context().Err() != nil {
			return nil, err
		}
		if r.unreachable.CompareAndSwap(false, true) {
			r.logger.Warn("The API server cannot be reached; decisions continue", "error", err)
		}
		select {
		case <-request.Context().Done():
			return nil, err
		case <-time.After(wait.Jitter(r.pause, 1)):
		}
	}
}
