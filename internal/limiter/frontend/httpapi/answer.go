// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
)

const (
	headerAllow         = "Allow"
	headerContentLength = "Content-Length"

	typeText = "text/plain; charset=utf-8"
)

// writeDecision answers with the decision.
func writeDecision(w http.ResponseWriter, d *limiter.Decision, o answer.Options) {
	a := answer.New(d, o)
	defer a.Release()
	if len(a.Body) > 0 {
		a.Headers = append(a.Headers, answer.Header{Name: headerContentLength, Value: strconv.Itoa(len(a.Body))})
	}
	header, values := w.Header(), make([]string, len(a.Headers))
	for i, h := range a.Headers {
		values[i] = h.Value
		// Set would change the spelling of some names. The capacity keeps Add from writing into
		// the next value.
		header[h.Name] = values[i : i+1 : i+1]
	}
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body) // an error means that the client closed the connection
	}
}

// write sends a whole response.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set(answer.HeaderContentType, contentType)
	w.Header().Set(headerContentLength, strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client closed the connection
}

// writeText sends a plain-text response.
func writeText(w http.ResponseWriter, status int, text string) {
	write(w, status, typeText, []byte(text))
}
