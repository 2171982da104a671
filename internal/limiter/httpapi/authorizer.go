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
	"net/netip"
	"os"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/answer"
)

// Verb is what somebody wants to do with the state of a key: the verb of the
// Kubernetes right to ratelimitpolicies/state that allows it.
type Verb string

// The verbs.
const (
	VerbInspect Verb = "get"
	VerbBlock   Verb = "create"
	VerbUnblock Verb = "update"
	VerbReset   Verb = "delete"
)

// Authorizer says who may see and change the state of keys.
type Authorizer interface {
	// Authorize returns the name of the bearer of the token if it may do that with
	// the policy. It returns ErrUnauthenticated if the token is nobody's,
	// ErrForbidden if its bearer may not, and any other error if neither can be
	// found out at the moment.
	Authorize(ctx context.Context, token string, verb Verb, namespace, policy string) (user string, err error)
}

// What an Authorizer says of a token.
var (
	ErrUnauthenticated = errors.New("the token is not valid")
	ErrForbidden       = errors.New("the bearer of the token may not do this")
)

// TokenFile is an Authorizer that lets the bearer of the one token in a file do
// everything. The file is read for each request, so a new token holds at once.
type TokenFile string

// NewTokenFile returns the authorizer of the file, which must hold a token: one
// word, with white space around it or not.
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
		return "", fmt.Errorf("%s holds no token", string(f))
	case 1:
		return words[0], nil
	default: // no request can show that
		return "", fmt.Errorf("%s holds more than one word", string(f))
	}
}

// Authorize implements Authorizer.
func (f TokenFile) Authorize(_ context.Context, token string, _ Verb, _, _ string) (string, error) {
	want, err := f.token()
	if err != nil {
		return "", err
	}
	// Hashes have one length, so the time to compare tells nothing of the token.
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return "", ErrUnauthenticated
	}
	return "admin", nil
}

// bearer returns the token of the request. It comes before anything else of the
// request is read, and refuses those that cannot have a right to an answer. A
// token is a secret: one that comes in plain text from another machine is not even
// looked at. Who that is says the connection, never a header.
func (h *Handler) bearerToken(w http.ResponseWriter, r *http.Request) (token string, ok bool) {
	if r.TLS == nil && !fromLoopback(r) {
		writeProblem(w, http.StatusForbidden, answer.Problem{Code: codeForbidden, Detail: "Tokens are taken over TLS or from this machine only."})
		return "", false
	}
	// Of two headers, another program may have judged the other one.
	if values := r.Header.Values("Authorization"); len(values) == 1 {
		scheme, rest, _ := strings.Cut(values[0], " ")
		if token = strings.TrimLeft(rest, " "); strings.EqualFold(scheme, "Bearer") && token != "" {
			return token, true
		}
	}
	h.writeTokenError(w, r, ErrUnauthenticated)
	return "", false
}

// allow refuses the request unless the bearer of the token may do that with the
// policy, and says who that is. It comes before anybody looks whether there is
// such a policy.
func (h *Handler) authorizeVerb(w http.ResponseWriter, r *http.Request, token string, verb Verb, policy string) (user string, ok bool) {
	namespace, name, _ := strings.Cut(policy, "/")
	user, err := h.Authorizer.Authorize(r.Context(), token, verb, namespace, name)
	if err != nil {
		h.writeTokenError(w, r, err)
		return "", false
	}
	return user, true
}

func (h *Handler) writeTokenError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
		writeProblem(w, http.StatusUnauthorized, answer.Problem{Code: codeUnauthenticated, Detail: "This path wants a valid bearer token."})
	case errors.Is(err, ErrForbidden):
		writeProblem(w, http.StatusForbidden, answer.Problem{Code: codeForbidden, Detail: "The bearer of the token may not do this."})
	case r.Context().Err() != nil:
		writeClientClosed(w)
	default:
		h.Logger.ErrorContext(r.Context(), "Token was not judged", "error", err)
		writeProblem(w, http.StatusServiceUnavailable, answer.Problem{
			Code: codeUnavailable, Detail: "Tokens cannot be judged at the moment.", RetryAfter: 1,
		})
	}
}

func fromLoopback(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
