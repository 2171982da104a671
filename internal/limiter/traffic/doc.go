// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic reports to which policies checks apply, through which of their targets, and which policies
// deny some.
//
// Reading order:
//
//	sightings.go  Sightings: what decisions record
//	reporter.go   Reporter: from there to Redis, in batches
//	metrics.go    when each target of a policy was last reported
//	reader.go     Reader: what all replicas have reported
//	denials.go    Reader: the reports of denials, and which of them the leader has announced
//
// # Cost
//
// A decision reads one atomic number for each policy that applies, and changes it once a minute. A denial reads
// another one, and changes it every 15 seconds. One
// goroutine does everything else. The memory is bounded by the policies and their targets, whatever
// clients send: while Redis does not answer, a sighting waits in the number.
//
// # Layout
//
// Three sorted sets, with the hash tag of the registry, that belong to no format of it:
//
//	<prefix>{registry}:traffic   "<policy> <selectors> <target>", by the milliseconds of server time when it
//	                             was last reported; for 24 hours
//	<prefix>{registry}:denials   "<policy> <UID>" of a policy that denied a request, by the same; for 5 minutes
//	<prefix>{registry}:denying   "<policy> <UID>" of a policy whose denials the leader has announced to begin and
//	                             not to end, by the same; for 24 hours. The next leader continues from here
//
// Each has at most 65,536 members. selectors is plan.Plan.Selectors: a sighting of an earlier generation does
// not count for other selectors. The target is empty for a policy without targets, and for checks that name
// the policy.
package traffic
