// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grpcserver is the gRPC port: listening, draining, health, reflection and
// what protects the services that are registered on it.
package grpcserver
