// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httptypes declares the JSON of the HTTP API: the frontend writes it, the web console
// and kubectl weir read it, and a test compares it with the OpenAPI document. The types have the names of
// the document's schemas.
//
// The bodies of decisions and of errors are in package answer, because all frontends share them.
//
// Reading order:
//
//	policies.go  GET /v1/policies and GET /v1/process
//	state.go     the key that a state call names, in a body or a query, and the answers
//	lists.go     GET /v1/blocks, /v1/top, /v1/rates, /v1/keys and /v1/targets
//	check.go     the body of POST /v1/explain, and its parts from text
//	explain.go   the answer of POST /v1/explain
//	probe.go     POST /v1/probes, and what probes report
//	reserve.go   answers of POST /v1/commit, /v1/renew and /v1/charge
package httptypes
