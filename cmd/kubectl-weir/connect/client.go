// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	limits "github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/reject"
)

// maxAnswer bounds how much of an answer is read.
const maxAnswer = 64 << 20

// Client calls Weir.
type Client struct {
	HTTP  *http.Client
	URL   string // without a slash at the end
	Hint  string // names what a failed connection was to
	token string // "" for calls without one
	user  string // the name that the log of Weir contains as claimedUser, unverified
	// account is the ServiceAccount that the token is of, "" if unknown.
	account string
}

// State returns the state of the key. remoteAddress and principal select an override; "" is none.
func (c *Client) State(ctx context.Context, t httptypes.Target, remoteAddress, principal string) (offline.Answer, error) {
	state := &KeyState{}
	body, err := c.Call(ctx, http.MethodGet, "/v1/state?"+t.Query(remoteAddress, principal).Encode(), nil, state)
	return offline.Answer{Body: body, Text: state.write}, err
}

// Change changes the key. Its text is changed, or unchanged if there was nothing to change.
func (c *Client) Change(ctx context.Context, path string, t httptypes.Target, changed, unchanged string) (offline.Answer, error) {
	var result httptypes.Changed
	body, err := c.Post(ctx, path, t, &result)
	if err != nil {
		return offline.Answer{}, err
	}
	text := changed
	if !result.Found {
		text = unchanged
	}
	if result.Key != nil {
		text += "\nThe key is " + PartsText(result.Key) + ": the policy counts this network as one client."
	}
	return offline.Answer{Body: body, Text: offline.Line(text)}, nil
}

// UnblockAll lifts all listed blocks of the policy.
func (c *Client) UnblockAll(ctx context.Context, policy string) (offline.Answer, error) {
	result := httptypes.Changed{Lifted: new(int)}
	body, err := c.Post(ctx, "/v1/unblock", &httptypes.Target{Policy: policy, All: true}, &result)
	return offline.Answer{Body: body, Text: offline.Line(fmt.Sprintf("Blocks lifted under %s: %d.", policy, *result.Lifted))}, err
}

// Version returns the version of Weir.
func (c *Client) Version(ctx context.Context) (string, error) {
	var list httptypes.PolicyList
	if _, err := c.Call(ctx, http.MethodGet, "/v1/policies", nil, &list); err != nil {
		return "", err
	}
	return list.Version, reject.If(list.Version == "", "this Weir is too old to report its version")
}

// Post is Call with the request as JSON.
func (c *Client) Post(ctx context.Context, path string, request, into any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return c.Call(ctx, http.MethodPost, path, body, into)
}

// Call returns the body of a successful answer, and decodes it into the given value.
func (c *Client) Call(ctx context.Context, method, path string, body []byte, into any) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if claimed := message.Printable(c.user); claimed != "" {
		request.Header.Set("Weir-Claimed-User", claimed)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", c.Hint, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Hint, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, c.problem(response.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("%s: the answer is not from Weir: %w", c.Hint, err)
	}
	return text, nil
}

// ProblemError is a problem document of the server, with what to do about it.
type ProblemError struct{ Code, message string }

// Error implements error.
func (e *ProblemError) Error() string { return e.message }

// problem returns the message of the server: a *ProblemError if it is one of Weir.
func (c *Client) problem(status int, body []byte) error {
	var p limits.Problem
	if json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return fmt.Errorf("%s: status %d: %s", c.Hint, status, bytes.TrimSpace(body))
	}
	var message string
	switch {
	case status == http.StatusForbidden && c.account != "":
		message = fmt.Sprintf("%s The token is of the account %s; choose another one with --account, or ask for its role in the chart value access", p.Detail, c.account)
	case status == http.StatusNotFound && p.Code == "NotFound":
		message = c.Hint + ": serves no calls on keys; weir standalone needs --admin-token-file, weir manager an API server"
	case status == http.StatusBadRequest && strings.HasPrefix(p.Field, "key"):
		flags := "; --as-given accepts"
		if p.Field == "key" {
			flags = "; --part NAME=VALUE finds listed keys by one part, --shared names requests without the key, --as-given accepts"
		}
		message = strings.Replace(p.Detail, "; asGiven accepts", flags, 1)
	default:
		message = p.Detail
	}
	return &ProblemError{p.Code, message}
}

// progressAfter is how long a command waits silently.
const progressAfter = time.Second

// List returns the body of the answer, and decodes it into the given value. If it takes longer than a
// second, it reports progress on a terminal.
func (c *Client) List(ctx context.Context, progress io.Writer, path string, query url.Values, into any) ([]byte, error) {
	slow := time.AfterFunc(progressAfter, func() {
		if offline.IsTerminal(progress) {
			_, _ = fmt.Fprintln(progress, "Waiting for the replicas to report...")
		}
	})
	defer slow.Stop()
	return c.Call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, into)
}
