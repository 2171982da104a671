// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// DefaultTimeout is the Timeout of clients that set none. It is longer than the time that a
	// decision of Weir may take, --store-timeout, by default.
	DefaultTimeout = 500 * time.Millisecond
	// DefaultResendFor is the ResendFor of clients that set none.
	DefaultResendFor = 30 * time.Second
	// maxResendFor is how long Weir remembers the ID of a charge: later, the same charge counts again.
	maxResendFor = 10 * time.Minute
	// maxAnswer bounds how much of an answer is read.
	maxAnswer = 1 << 20
	// idleConnections are kept to Weir; further concurrent checks open connections of their own.
	idleConnections = 100
)

// Options configure a Client. URL and FailMode are required.
type Options struct {
	// URL is the base URL of the HTTP API, such as "http://weir.weir-system.svc:8080".
	URL string
	// FailMode decides when Weir does not.
	FailMode FailMode
	// Timeout bounds a check, with connecting; 0 is DefaultTimeout.
	Timeout time.Duration
	// ResendFor is how long commits, renewals and charges are sent again while Weir or Redis does
	// not answer, at most 10 minutes, because Weir then forgets their IDs; 0 is DefaultResendFor.
	ResendFor time.Duration
	// HTTPClient sends the checks, for TLS or tracing. It must not retry. Nil is a client that
	// keeps connections open and follows no redirects.
	HTTPClient *http.Client
}

// Client asks Weir over HTTP. It is safe for concurrent use.
type Client struct {
	url       string // without a slash at the end
	failMode  FailMode
	timeout   time.Duration
	resendFor time.Duration
	http      *http.Client
}

// New returns a client. Its error names the invalid option.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("weir: URL %q: must be the base URL of the HTTP API, such as http://weir.weir-system.svc:8080", o.URL)
	}
	switch {
	case !o.FailMode.Valid():
		return nil, errors.New("weir: FailMode: choose Open or Closed")
	case o.Timeout < 0:
		return nil, fmt.Errorf("weir: Timeout %v: must not be negative", o.Timeout)
	case o.ResendFor < 0:
		return nil, fmt.Errorf("weir: ResendFor %v: must not be negative", o.ResendFor)
	case o.ResendFor > maxResendFor:
		return nil, fmt.Errorf("weir: ResendFor %v: must be at most %v, or charges may count twice", o.ResendFor, maxResendFor)
	}
	c := &Client{
		url: strings.TrimSuffix(o.URL, "/"), failMode: o.FailMode, http: o.HTTPClient,
		timeout: cmp.Or(o.Timeout, DefaultTimeout), resendFor: cmp.Or(o.ResendFor, DefaultResendFor),
	}
	if c.http == nil {
		c.http = newHTTPClient()
	}
	return c, nil
}

func newHTTPClient() *http.Client {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     time.Minute, // shorter than Weir's
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Check asks Weir to decide and, unless it is a peek, to spend. It sends one request.
//
// If Weir makes no decision, Check returns an error together with the decision of the FailMode:
// a caller may log the error and obey the decision. The error is an *Error if Weir answered.
//
// The decision denies in both modes, so that clients cannot evade their limits,
//
//   - if ctx ends first: a client that disconnects may have ended it;
//   - if Weir rejects the check as invalid or too large (400, 413): clients choose paths and headers.
func (c *Client) Check(ctx context.Context, check Check) (Decision, error) {
	return c.askForDecision(ctx, func(ctx context.Context) (Decision, error) {
		r, err := c.post(ctx, "/v1/check", check)
		if err != nil {
			return Decision{}, err
		}
		return r.decision()
	})
}

// askForDecision returns the decision of ask, or the decision of the FailMode.
func (c *Client) askForDecision(ctx context.Context, ask func(context.Context) (Decision, error)) (Decision, error) {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	decision, err := ask(bounded)
	switch {
	case err == nil:
		return decision, nil
	case ctx.Err() != nil:
		return Closed.Without(), ctx.Err()
	case bounded.Err() != nil:
		return c.failMode.Without(), fmt.Errorf("weir: no answer within %v: %w", c.timeout, err)
	case isInvalid(err):
		return Invalid(), err
	}
	return c.failMode.Without(), err
}

// isInvalid reports whether Weir rejects the check, and not the server in front of it, which sends
// no code.
func isInvalid(err error) bool {
	answer, isAnswer := errors.AsType[*Error](err)
	return isAnswer && answer.Code != "" &&
		(answer.Status == http.StatusBadRequest || answer.Status == http.StatusRequestEntityTooLarge)
}

// reply is what a server answered.
type reply struct {
	status int
	header http.Header
	text   []byte
}

// err returns the reply as an error.
func (r *reply) err() error { return newError(r.status, r.text) }

// post sends the request and returns the reply.
func (c *Client) post(ctx context.Context, path string, body any) (*reply, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	return &reply{status: response.StatusCode, header: response.Header, text: text}, nil
}

// decision returns the decision of a reply. Another server's answer with one of the statuses of
// Weir, such as the 503 of a proxy, has no decision.
func (r *reply) decision() (Decision, error) {
	var d Decision
	if err := json.Unmarshal(r.text, &d); err != nil {
		return Decision{}, r.err()
	}
	allowed := r.status == http.StatusOK
	denied := r.status == d.Status && d.Status >= http.StatusBadRequest
	if d.Allowed != allowed || !allowed && !denied {
		return Decision{}, r.err()
	}
	d.Degraded = r.header.Get("Weir-Degraded")
	d.Header = http.Header{}
	Decision{Header: r.header}.SetHeaders(d.Header)
	return d, nil
}
