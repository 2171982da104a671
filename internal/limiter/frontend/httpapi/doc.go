// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpapi is the HTTP frontend: checks as JSON, forward-auth for proxies, the list of
// policies, and the operators' calls on the state of keys.
//
// It guarantees:
//   - A request has exactly one meaning, or is rejected with the field named.
//   - Nothing that a client sends causes a 5xx or a panic.
//
// It knows neither Redis nor Kubernetes and decides nothing itself.
//
// Reading order:
//
//	handler.go      options and routes
//	check.go        POST /v1/check, and errors of checks
//	request.go      from JSON to a check, on top of
//	reader.go         a strict JSON reader
//	reserve.go      POST /v1/reserve, /v1/commit, /v1/renew and /v1/charge
//	reserverequest.go
//	                from JSON to their requests
//	authorize.go    /v1/authorize, for forward-auth
//	forwarded.go    from forwarding headers to attributes
//	policies.go     GET /v1/policies
//	plan.go         GET /v1/plan
//	state.go        inspect, reset, block and unblock one key
//	explain.go      POST /v1/explain, and which policies the caller may read
//	explanation.go  an explanation as JSON
//	lists.go        GET /v1/blocks: what the lists share, and the list of blocks
//	activity.go     GET /v1/top and GET /v1/rates
//	keys.go         GET /v1/keys: listed keys in which a value appears
//	targets.go      GET /v1/targets
//	probe.go        POST /v1/probes, and answers to probes
//	mask.go         keys in lists, without the values of headers
//	target.go       from a request to the key it names
//	operator.go     the operator port: which paths and hosts it serves, and GET /v1/process
//	authorizer.go   authorization of the state calls
//	pool.go         memory that requests share
//	answer.go       writing responses
//	problem.go      problem documents (RFC 9457) for errors
//	console.go      POST /v1/console, and the paths of the web console
//	openapi.go      GET /openapi.yaml
//
// Package answer encodes decisions, for all frontends.
package httpapi
