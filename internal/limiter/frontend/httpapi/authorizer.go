// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Verb is the Kubernetes verb on ratelimitpolicies/state that a state call requires.
type Verb string

// Verbs of the state calls.
const (
	VerbInspect Verb = "get"
	VerbBlock   Verb = "create"
	VerbUnblock Verb = "update"
	VerbReset   Verb = "delete"
	// VerbList lists keys, VerbReveal shows the values of headers in these lists.
	VerbList   Verb = "list"
	VerbReveal Verb = "reveal"
)

// Authorizer authorizes calls that read or change the state of keys.
type Authorizer interface {
	// Authorize returns the caller with the token if it has the verb on the policy. An empty
	// policy stands for all policies of the namespace, an empty namespace for all namespaces. It
	// returns ErrUnauthenticated for an invalid token, ErrForbidden for a user without the verb,
	// ErrBusy while too many tokens are verified, and any other error if it cannot find out
	// now.
	Authorize(ctx context.Context, token string, verb Verb, namespace, policy string) (Caller, error)
}

// Caller is the bearer of a valid token.
type Caller struct {
	// User is the name of the account.
	User string
	// CredentialID identifies the token in the audit log of the API server, which names the
	// person it was issued to; empty if the token has none.
	CredentialID string
}

// Errors of an Authorizer.
var (
	ErrUnauthenticated = errors.New("the token is not valid")
	ErrForbidden       = errors.New("the user of the token is not allowed to do this")
	ErrBusy            = errors.New("too many tokens are being verified")
)

// TokenFile is an Authorizer that grants every verb to the token in a file. It reads the file
// for each request, so a new token is valid at once.
type TokenFile string

// NewTokenFile returns the authorizer of the file, which must contain one word, the token.
func NewTokenFile(path string) (TokenFile, error) {
	_, err := TokenFile(path).token()
	return TokenFile(path), err
}

func (f TokenFile) token() (string, error) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return "", err
	}
	switch words := strings.Fields(string(text)); len(words) {
	case 0:
		return "", fmt.Errorf("%s contains no token", string(f))
	case 1:
		return words[0], nil
	default: // no bearer token can contain white space
		return "", fmt.Errorf("%s contains more than one word", string(f))
	}
}

// Authorize implements Authorizer.
func (f TokenFile) Authorize(_ context.Context, token string, _ Verb, _, _ string) (Caller, error) {
	want, err := f.token()
	if err != nil {
		return Caller{}, err
	}
	// Hashes have equal length, so that the comparison leaks nothing about the token.
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return Caller{}, ErrUnauthenticated
	}
	return Caller{User: "admin"}, nil
}

// withToken serves a path for the bearer of the token in the request. The token is read before the rest of
// the request. A token sent in plain text from another host is rejected unread. The address of the connection
// decides, not a header.
func (h *Handler) withToken(serve func(w http.ResponseWriter, r *http.Request, token string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && !peerOf(r).IsLoopback() {
			writeProblem(w, http.StatusForbidden, answer.Problem{Code: codeForbidden, Detail: "Tokens are accepted only over TLS or from loopback."})
			return
		}
		token := bearerToken(r)
		if token == "" {
			h.writeTokenError(w, r, ErrUnauthenticated)
			return
		}
		if err := serve(w, r, token); err != nil {
			h.writeStateError(w, r, err)
		}
	}
}

// bearerToken returns the token of the request, "" without one.
func bearerToken(r *http.Request) string {
	// If the header is repeated, a proxy may have verified another token than Weir would.
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}

// tokenError is an error of the Authorizer.
type tokenError struct{ cause error }

// Error implements error.
func (e *tokenError) Error() string { return e.cause.Error() }

// authorizeVerb returns the caller with the token if it has the verb on the policy, else a tokenError. It runs before
// the policy is looked up, so that unauthorized callers cannot find out which policies exist.
func (h *Handler) authorizeVerb(ctx context.Context, token string, verb Verb, policy string) (Caller, error) {
	namespace, name := plan.SplitID(policy)
	caller, err := h.Authorizer.Authorize(ctx, token, verb, namespace, name)
	if err != nil {
		return Caller{}, &tokenError{err}
	}
	return caller, nil
}

func (h *Handler) writeTokenError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
		writeProblem(w, http.StatusUnauthorized, answer.Problem{Code: codeUnauthenticated, Detail: "This path requires a valid bearer token."})
	case errors.Is(err, ErrForbidden):
		writeProblem(w, http.StatusForbidden, answer.Problem{Code: codeForbidden, Detail: "The user of the token is not allowed to do this."})
	case r.Context().Err() != nil:
		writeClientClosed(w)
	default:
		// Any client can cause ErrBusy, as often as it likes.
		if !errors.Is(err, ErrBusy) {
			h.Logger.ErrorContext(r.Context(), "Failed to verify a token", "error", err)
		}
		writeProblem(w, http.StatusServiceUnavailable, answer.Problem{
			Code: codeUnavailable, Detail: "Tokens cannot be verified at the moment.", RetryAfter: 1,
		})
	}
}
