// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatewayapi reads the Gateways and routes that policies name, and finds the SecurityPolicies of Envoy
// Gateway that keep their requests from Weir.
//
// Reading order:
//
//	objects.go         the objects, with the few fields that are read
//	snapshot.go        Snapshot: all objects at one time; Judge
//	securitypolicy.go  which SecurityPolicy applies to a Gateway, listener, route or rule
//	bypass.go          the requests that a SecurityPolicy keeps from Weir
//	cache.go           Cache: the objects of the API server, while a policy needs them
//	informer.go        the cache of one kind
//
// # Certainty
//
// A bypass is reported only where the objects prove it: everything else stays unknown. The condition Merged of
// Envoy Gateway proves nothing. Neither does Accepted of a SecurityPolicy that calls Weir: while no pod of Weir
// is ready it is false, and the SecurityPolicy is still in place.
package gatewayapi
