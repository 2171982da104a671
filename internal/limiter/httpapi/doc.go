// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpapi is the HTTP door of the decision endpoint: it turns JSON
// requests into checks, decisions into answers, and shows which policies are
// enforced. Proxies ask it about their requests with nothing but headers.
//
// What it promises: a request means exactly one thing or is refused with the
// field named, nothing a client sends ends in a 5xx or a panic, and a server
// that is told to stop finishes what it has accepted. It knows neither Redis
// nor Kubernetes and decides nothing itself.
//
// Reading order: handler.go (paths), check.go (one check), request.go on top of
// reader.go (what is accepted), authorize.go on top of forwarded.go (what is
// believed of proxies). What is said of a
// decision is in the package answer, which all doors share.
package httpapi
