// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatewayapi reads the Gateways and routes that policies name, and finds the SecurityPolicies of Envoy
// Gateway that keep their requests from Weir.
//
// Reading order:
//
//	objects.go         the objects, with the few fields that are read
//	snapshot.go        Snapshot: all objects at one time; Judge
//	securitypolicy.go  the facts about one SecurityPolicy, and which of several applies
//	selection.go       which SecurityPolicies select an object by its labels
//	bypass.go          the requests that a SecurityPolicy keeps from Weir
//	cache.go           Cache: the objects of the API server, while a policy needs them
//	informer.go        the cache of one kind
//
// # Cost
//
// A Snapshot determines once for each object which SecurityPolicy applies to it, and compares each selector once with each
// set of labels. The comparisons for the SecurityPolicies of one Namespace are bounded: beyond the bound, what they may select is
// Unchecked. So what one tenant owns adds to the cost, and does not multiply.
//
// # Certainty
//
// A bypass is reported only where the objects prove it: everything else stays unknown. The condition Merged of
// Envoy Gateway proves nothing. Neither does Accepted of a SecurityPolicy that calls Weir: while no pod of Weir
// is ready it is false, and the SecurityPolicy is still in place.
package gatewayapi
