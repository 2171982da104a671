// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// internalHost is the Host header of the calls within the process.
const internalHost = "localhost"

// processLife is how long the state of the process is shown before it is determined again.
const processLife = 15 * time.Second

// problem is an error of the API.
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Error implements error.
func (p *problem) Error() string {
	if p.Field != "" && !strings.HasPrefix(p.Detail, p.Field+": ") {
		return p.Field + ": " + p.Detail
	}
	return p.Detail
}

// recorder keeps a response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// get calls the API with the token of the session and decodes the answer. The error is a *problem
// unless the answer cannot be decoded.
func (c *Console) get(ctx context.Context, s *session, path string, query url.Values, into any) error {
	return c.call(ctx, s, http.MethodGet, path+"?"+query.Encode(), nil, into)
}

// post is like get, with a body.
func (c *Console) post(ctx context.Context, s *session, path string, body, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.call(ctx, s, http.MethodPost, path, encoded, into)
}

func (c *Console) call(ctx context.Context, s *session, method, target string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+internalHost+target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.RemoteAddr = "127.0.0.1:0" // the operator port took the request on loopback or over TLS
	r.Header.Set("Authorization", "Bearer "+s.token)
	if s.claimedUser != "" {
		r.Header.Set(httpapi.HeaderClaimedUser, s.claimedUser)
	}
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	c.api.ServeHTTP(w, r)
	if w.status != http.StatusOK {
		p := &problem{Status: w.status}
		if err := json.Unmarshal(w.body.Bytes(), p); err != nil {
			return fmt.Errorf("status %d of %s: %w", w.status, target, err)
		}
		return p
	}
	return json.Unmarshal(w.body.Bytes(), into)
}

// describe returns the state of the process, at most processLife old. One visit determines it, others
// wait.
func (c *Console) describe(ctx context.Context, s *session) (*httptypes.Process, error) {
	c.process.Lock()
	defer c.process.Unlock()
	if c.process.at.IsZero() || c.now().Sub(c.process.at) >= processLife {
		answer := &httptypes.Process{}
		c.process.err = c.call(context.WithoutCancel(ctx), s, http.MethodGet, "/v1/process", nil, answer)
		c.process.answer, c.process.at = answer, c.now()
	}
	return c.process.answer, c.process.err
}

// may reports whether the session has the verb on the policy. Errors of the Authorizer count as no:
// then the call itself would fail as well.
func (c *Console) may(ctx context.Context, s *session, verb httpapi.Verb, namespace, policy string) bool {
	_, err := c.authorizer.Authorize(ctx, s.token, verb, namespace, policy)
	return err == nil
}

// errNoToken is the problem of a token that cannot be verified now.
var errNoToken = &problem{Status: http.StatusServiceUnavailable, Detail: "Tokens cannot be verified at the moment."}

// asProblem returns the problem for an error of the Authorizer.
func asProblem(err error) error {
	switch {
	case errors.Is(err, httpapi.ErrUnauthenticated):
		return &problem{Status: http.StatusUnauthorized}
	case errors.Is(err, httpapi.ErrForbidden):
		return &problem{Status: http.StatusForbidden, Detail: "The account of this session may not list the keys of this policy."}
	}
	return errNoToken
}
