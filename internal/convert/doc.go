// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert converts the configurations of other rate limiters into
// RateLimitPolicies.
//
// A conversion keeps the decisions: the same request spends from the same budget and
// is denied at the same count. A feature without a counterpart is never dropped
// silently: it is reported as a Note.
//
// Read the files in this order:
//
//	doc.go                    Note
//	collector.go              the policies and notes of one conversion
//	room.go                   policies that have no room in a decision
//	documents.go              the configurations of rate limit services in files
//	envoyratelimit.go         EnvoyRatelimit: envoyproxy/ratelimit to policies
//	envoyratelimit_config.go  reading and checking its configuration
//	wildcard.go               its values with "*"
//	manifests.go              objects of Kubernetes in files
//	ingressnginx.go           IngressNginx: annotations of Ingresses to policies
//	ingressnginx_servers.go   the servers and locations that its controller configures
//	ingressnginx_hosts.go     their names, as hosts of matches
//	ingressnginx_matches.go   their prefixes and exact paths, as paths of matches
//	ingressnginx_regex.go     their regular expressions, as conditions
//	limitador.go              Limitador: its limits files to policies
//	limitador_expressions.go  its expressions, with tests for absent entries
//	routes.go                 routes and Gateways of the Gateway API
//	routes_listeners.go       the listeners and hosts of routes
//	routes_matches.go         targetRefs and matches for rules of routes
//	kuadrant.go               Kuadrant: its policies and routes to policies
//	kuadrant_resources.go     these policies
//	kuadrant_selectors.go     the words of their earlier versions
//	kuadrant_effective.go     which of its policies are in force for a rule of a route
//	kuadrant_expressions.go   its expressions in the words of policies
//	envoygateway.go           EnvoyGateway: its BackendTrafficPolicies and routes to policies
//	envoygateway_resources.go these policies
//	envoygateway_targets.go   their targets that have no counterpart
//	envoygateway_effective.go which of their rules are in force for a rule of a route
//	envoygateway_limits.go    the limits of rules, and the rules that Envoy Gateway rejects
//	envoygateway_clients.go   clientSelectors as matches and keys
//	envoygateway_paths.go     paths, which Envoy compares with the query
//	envoygateway_cells.go     keys for the routes that Envoy Gateway makes of one route
//	envoygateway_wire.go      the manifests by which Gateways and routes ask Weir
//	write.go                  Write: policies as YAML
package convert

// Note is a part of the source that was not converted, or that behaves differently.
type Note struct {
	// At is the path in the source, such as "descriptors[0].rate_limit.unit"; empty if
	// the note applies to all of it.
	At string
	// Text describes the difference and what to do about it.
	Text string
	// Loss is true if the source limits something that the policies do not.
	Loss bool
}

// String returns the note in one line.
func (n Note) String() string {
	if n.At == "" {
		return n.Text
	}
	return n.At + ": " + n.Text
}
