// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"net/netip"
)

// Decider answers checks. The engine implements it; frontends call it.
type Decider interface {
	// Decide answers the check. It returns a *FieldError or *UnknownPolicyError for an
	// invalid check, ErrNotReady before the first plans are loaded, and the error of ctx
	// if the caller canceled. After an error or a degraded decision the check may still be
	// in use: the caller must not change it.
	Decide(ctx context.Context, check *Check) (*Decision, error)
}

// FrontendOptions configure every frontend alike.
type FrontendOptions struct {
	// TrustedProxies are the networks of the proxies whose forwarding headers are
	// trusted.
	TrustedProxies []netip.Prefix
	// PrincipalHeader is the name, case-insensitive, of the header in which trusted proxies
	// send the authenticated user; empty turns it off.
	PrincipalHeader string
	// TrustRouteExtensions lets the context extension weir.route of ext_authz name the route, if the metadata of
	// the route does not.
	TrustRouteExtensions bool
	// LegacyHeaders adds X-RateLimit-Limit, -Remaining and -Reset to answers.
	LegacyHeaders bool
}
