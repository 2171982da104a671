// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extauthz is the door for Envoy's external authorization filter: the
// envoy.service.auth.v3.Authorization. It decides by the request itself, as
// forward-auth does over HTTP: policies match and take their keys from what Envoy
// tells of it. A refusal is the same answer that the HTTP door gives.
package extauthz
