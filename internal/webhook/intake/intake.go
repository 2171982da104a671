// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"
)

// ReadTimeout bounds the headers and the body of a request together.
const ReadTimeout = 2 * time.Second

// Reasons of rejections, as in docs/metrics.md.
const (
	reasonConnections = "connections" // the source has too many connections, or all have
	reasonIncomplete  = "incomplete"  // headers and body did not arrive in time
	reasonSize        = "size"        // the body is too large or has no length
	reasonMemory      = "memory"      // other bodies take the memory
	reasonQueue       = "queue"       // the client gave up before a slot was free
)

// Options configure an Intake.
type Options struct {
	// Judged is how many requests are judged at a time.
	Judged int
	// Registerer receives the metrics; nil registers none.
	Registerer prometheus.Registerer
}

// Intake reads requests completely and passes them to a handler. Listener and ConnContext
// belong to the server that calls the handler.
type Intake struct {
	bounds   bounds
	bodies   *semaphore.Weighted // bytes
	slots    chan struct{}
	rejected *prometheus.CounterVec
}

// bounds are the bounds in the package comment. Tests lower them.
type bounds struct {
	served, waiting, open    int           // connections
	body, bodies, fromSource int64         // bytes
	read, judge              time.Duration // of one request
}

var defaultBounds = bounds{
	served: 8, waiting: 200, open: 1024,
	body: 4 << 20, bodies: 32 << 20, fromSource: 8 << 20,
	// judge is below the five seconds that an API server waits by default.
	read: ReadTimeout, judge: 4 * time.Second,
}

// New returns an Intake and registers its metrics.
func New(o Options) *Intake { return newIntake(o, defaultBounds) }

func newIntake(o Options, b bounds) *Intake {
	return &Intake{
		bounds: b,
		bodies: semaphore.NewWeighted(b.bodies),
		slots:  make(chan struct{}, o.Judged),
		rejected: promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "weir_webhook_rejections_total",
			Help: "Connections and requests that the webhook rejected before it judged them, by reason.",
		}, []string{"reason"}),
	}
}

// Listener wraps the listener of a server, to bound its connections.
func (in *Intake) Listener(inner net.Listener) net.Listener { return newListener(in, inner) }

type connKey struct{}

// ConnContext adds the connection to the context of its requests. It has the form of
// http.Server.ConnContext.
func (*Intake) ConnContext(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Handler reads each request and then calls next, for a bounded number of requests at a
// time. It panics for a request whose connection is not of Listener.
func (in *Intake) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*conn)
		c.requested.Store(true)
		release, rejected := in.reserve(r, c.source)
		if rejected != nil {
			in.reject(w, rejected)
			return
		}
		defer release()
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			in.reject(w, &rejection{http.StatusRequestTimeout, reasonIncomplete, "the body did not arrive in time"})
			return
		}
		// Otherwise the end of ReadTimeout would cancel the request while it is judged.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		r.Body = io.NopCloser(bytes.NewReader(body))
		in.judgeReview(w, r, next)
	})
}

// rejection is the answer to a request that is not judged.
type rejection struct {
	status         int
	reason, detail string
}

func (in *Intake) reject(w http.ResponseWriter, r *rejection) {
	in.rejected.WithLabelValues(r.reason).Inc()
	if r.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1") // the API server then tries again within its timeout
	}
	http.Error(w, r.detail, r.status)
}

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
