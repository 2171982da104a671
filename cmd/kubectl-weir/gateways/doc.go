// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gateways has the commands about gateways and routes that ask Weir.
//
// Read the files in this order:
//
//	wire.go         wire: the manifests by which a gateway asks Weir, from
//	wirecluster.go  what the cluster has
//	probe.go        probe
//	targets.go      targets
package gateways
