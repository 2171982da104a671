// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package frontend is the folder of the frontends: httpapi, envoyrls and extauthz, which serve one protocol each, and what
// they share. httptypes is the JSON of the HTTP API, answer encodes decisions, forwarded judges forwarding headers, probe
// answers requests with a one-time code, and console has the pages for operators.
//
// A frontend imports only the contract, package limiter, and plans: no engine, no Redis, no other frontend, and no
// listening socket.
package frontend
