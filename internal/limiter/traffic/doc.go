// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic reports to which policies checks apply, and through which of their targets.
//
// Reading order:
//
//	sightings.go  Sightings: what decisions record
//	reporter.go   Reporter: from there to Redis, in batches
//	metrics.go    when each target of a policy was last reported
//	reader.go     Reader: what all replicas have reported
//
// # Cost
//
// A decision reads one atomic number for each policy that applies, and changes it once a minute. One
// goroutine does everything else. The memory is bounded by the policies and their targets, whatever
// clients send: while Redis does not answer, a sighting waits in the number.
//
// # Layout
//
// One key, with the hash tag of the registry, that belongs to no format of it:
//
//	<prefix>{registry}:traffic   sorted set: "<policy> <selectors> <target>", by the milliseconds of
//	                             server time when it was last reported
//
// It has at most 65,536 members, and drops members that no replica has reported for 24 hours. selectors
// is plan.Plan.Selectors: a sighting of an earlier generation does not count for other selectors. The
// target is empty for a policy without targets, and for checks that name the policy.
package traffic
