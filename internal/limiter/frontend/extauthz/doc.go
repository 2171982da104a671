// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extauthz is the frontend for Envoy's external authorization filter. It implements
// envoy.service.auth.v3.Authorization. Like forward-auth over HTTP it decides by the
// original request: Envoy sends its attributes, from which policies match and take keys. A
// denial is the answer that the HTTP frontend would send.
//
// Reading order: service.go (the call and the response), attributes.go (from the request to
// attributes), targets.go (the Gateway and the route of the request), probe.go (probes).
package extauthz
