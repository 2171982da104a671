// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
)

const (
	headerAllow         = "Allow"
	headerContentLength = "Content-Length"

	typeText = "text/plain; charset=utf-8"
)

// bodies pools buffers for request bodies.
var bodies = sync.Pool{New: func() any { return &bytes.Buffer{} }}

func takeBody() *bytes.Buffer { return bodies.Get().(*bytes.Buffer) }

func releaseBody(b *bytes.Buffer) {
	b.Reset()
	bodies.Put(b)
}

// writeDecision answers with the decision.
func writeDecision(w http.ResponseWriter, d *limiter.Decision, o answer.Options) {
	a := answer.New(d, o)
	defer a.Release()
	for _, h := range a.Headers {
		// Set would change the spelling of some names.
		w.Header()[h.Name] = []string{h.Value}
	}
	if len(a.Body) == 0 {
		w.WriteHeader(a.Status)
		return
	}
	writeBody(w, a.Status, a.Body)
}

// write sends a whole response.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set(answer.HeaderContentType, contentType)
	writeBody(w, status, body)
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set(headerContentLength, strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// An error means that the client closed the connection.
	_, _ = w.Write(body)
}

// writeText sends a plain-text response.
func writeText(w http.ResponseWriter, status int, text string) {
	write(w, status, typeText, []byte(text))
}
