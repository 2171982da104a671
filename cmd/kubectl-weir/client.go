// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	limits "github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/httptypes"
)

// maxAnswer bounds how much of an answer is read.
const maxAnswer = 64 << 20

// client calls Weir.
type client struct {
	http  *http.Client
	url   string // without a slash at the end
	hint  string // names what a failed connection was to
	token string // "" for calls without one
	user  string // the name that the log of Weir contains as claimedUser, unverified
	// account is the ServiceAccount that the token is of, "" if unknown.
	account string
}

// state returns the state of the key. remoteAddress and principal select an override; "" is none.
func (c *client) state(ctx context.Context, t httptypes.Target, remoteAddress, principal string) (answer, error) {
	state := &keyState{}
	body, err := c.call(ctx, http.MethodGet, "/v1/state?"+t.Query(remoteAddress, principal).Encode(), nil, state)
	if err != nil {
		return answer{}, err
	}
	return answer{body: body, text: state.write}, nil
}

// change changes the key. Its text is changed, or unchanged if there was nothing to change.
func (c *client) change(ctx context.Context, path string, t httptypes.Target, changed, unchanged string) (answer, error) {
	request, err := json.Marshal(t)
	if err != nil {
		return answer{}, err
	}
	var result httptypes.Changed
	body, err := c.call(ctx, http.MethodPost, path, request, &result)
	if err != nil {
		return answer{}, err
	}
	text := changed
	if !result.Found {
		text = unchanged
	}
	if result.Key != nil {
		text += "\nThe key is " + partsText(result.Key) + ": the policy counts this network as one client."
	}
	return answer{body: body, text: line(text)}, nil
}

// unblockAll lifts all listed blocks of the policy.
func (c *client) unblockAll(ctx context.Context, policy string) (answer, error) {
	request, err := json.Marshal(&httptypes.Target{Policy: policy, All: true})
	if err != nil {
		return answer{}, err
	}
	result := httptypes.Changed{Lifted: new(int)}
	body, err := c.call(ctx, http.MethodPost, "/v1/unblock", request, &result)
	if err != nil {
		return answer{}, err
	}
	return answer{body: body, text: line(fmt.Sprintf("Blocks lifted under %s: %d.", policy, *result.Lifted))}, nil
}

// version returns the version of Weir.
func (c *client) version(ctx context.Context) (string, error) {
	var list httptypes.PolicyList
	if _, err := c.call(ctx, http.MethodGet, "/v1/policies", nil, &list); err != nil {
		return "", err
	}
	if list.Version == "" {
		return "", errors.New("this Weir is too old to report its version")
	}
	return list.Version, nil
}

// call returns the body of a successful answer, and decodes it into the given value.
func (c *client) call(ctx context.Context, method, path string, body []byte, into any) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if claimed := printable(c.user); claimed != "" {
		request.Header.Set("Weir-Claimed-User", claimed)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", c.hint, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.hint, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, c.problem(response.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("%s: not an answer of Weir: %w", c.hint, err)
	}
	return text, nil
}

// problemError is a problem document of the server, with what to do about it.
type problemError struct{ code, message string }

// Error implements error.
func (e *problemError) Error() string { return e.message }

// problem returns the message of the server: a *problemError if it is one of Weir.
func (c *client) problem(status int, body []byte) error {
	var p limits.Problem
	if json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return fmt.Errorf("%s: status %d: %s", c.hint, status, bytes.TrimSpace(body))
	}
	var message string
	switch {
	case status == http.StatusForbidden && c.account != "":
		message = fmt.Sprintf("%s The token is of the account %s; choose another one with --account, or ask for its role in the chart value access", p.Detail, c.account)
	case status == http.StatusNotFound && p.Code == "NotFound":
		message = c.hint + ": serves no calls on keys; weir standalone needs --admin-token-file, weir manager an API server"
	case status == http.StatusBadRequest && strings.HasPrefix(p.Field, "key"):
		flags := "; --as-given accepts"
		if p.Field == "key" {
			flags = "; --part NAME=VALUE finds listed keys by one part, --shared names requests without the key, --as-given accepts"
		}
		message = strings.Replace(p.Detail, "; asGiven accepts", flags, 1)
	default:
		message = p.Detail
	}
	return &problemError{p.Code, message}
}

// printable returns the text without characters that a header must not contain, or that change
// what a terminal shows.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}
