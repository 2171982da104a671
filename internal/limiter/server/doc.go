// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server is the folder of what listens: httpserver and grpcserver with listen, which runs and drains them, and
// connlimit, which bounds connections and unfinished requests. endpoint puts the engine, its stores, the frontends and the
// servers together.
//
// A server imports no plan and makes no decision. Only endpoint may import the engine, stores and frontends.
package server
