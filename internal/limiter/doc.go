// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limiter is the contract between the engine, which decides checks, and the front
// frontends, which serve one protocol each (packages httpapi, envoyrls and extauthz). It holds
// the types of checks and decisions and their validation, and imports only package plan.
//
// Reading order: check.go (checks), decision.go (decisions), reservation.go (reservations, commits
// and charges), token.go (a reservation as text), errors.go (the errors of Decide), frontend.go (the interface Decider and the options of all frontends), state.go (the
// state of one key), explanation.go (why a check is decided as it is), listed.go (lists of keys and
// rates).
package limiter
