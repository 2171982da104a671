// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/subtle"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
)

// guests is an Authorizer that grants reading to everyone, with the values of headers, and no change: everyone who
// reaches the port is on this machine. It is the token that
// the console itself uses for visitors without a session; it never leaves the process.
type guests string

// Authorize implements httpapi.Authorizer.
func (g guests) Authorize(_ context.Context, token string, verb httpapi.Verb, _, _ string) (httpapi.Caller, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(g)) != 1 {
		return httpapi.Caller{}, httpapi.ErrUnauthenticated
	}
	if verb != httpapi.VerbInspect && verb != httpapi.VerbList && verb != httpapi.VerbReveal {
		return httpapi.Caller{}, httpapi.ErrForbidden
	}
	return httpapi.Caller{User: "guest"}, nil
}
