// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller publishes the plan of every RateLimitPolicy and the record of every RateLimitKeyGroup to the
// registry, and reports the rollout in the status of the object. Each kind has a controller, another one for its
// statuses and a queue of them; terms, signals and the publisher are common.
//
// It works only while its process is the leader. The next leader completes whatever is
// unfinished when the term ends. It uses no finalizer: the record of a deleted
// object is removed when the deletion is seen, and a sweep at the start of each
// term and after each loss of Redis removes the records that were missed. It knows
// neither Redis nor counters, only the interface Publisher.
//
// A reconcile compiles and publishes; it writes no status. It hands its facts to the status
// queue, which adds how far the plan has got and writes what has settled. Changes of the
// registry and of replicas go to that queue without a reconcile.
//
// Read the files in this order:
//
//	ratelimitpolicy_controller.go  Reconciler: wiring, Reconcile and its steps
//	kind.go                        a kind of objects, each of which compiles to a record
//	record_controller.go           reconciling an object of any kind
//	ratelimitkeygroup_controller.go  the kind RateLimitKeyGroup
//	ratelimitexception_controller.go  exceptions, judged by their policy until they end
//	publisher.go                   Publisher, the controller's interface to the registry
//	term.go                        TermTracker: is this process the leader?
//	ratelimitpolicy_queue.go       what queues a policy: API events, a new term
//	initial_pass.go                the objects that a new term has not processed yet
//	signals.go                     the reactions to a new term or a changed rollout
//	namespaces.go                  whose policies are enforced, and their grants without a watch
//	ratelimitpolicy_compile.go     the last compilation of each policy
//	facts.go                       the facts, and the conditions that follow from them
//	ratelimitpolicy_status.go      the status of a policy
//	ratelimitpolicy_wired.go       the condition Wired
//	ratelimitpolicy_targets.go     the condition ResolvedRefs
//	status_queue.go                when a status is to be written
//	traffic.go                     which policies have traffic
//	status_writer.go               the controller of statuses, and their one write
//	ratelimitpolicy_events.go      the events on policies
//	denials.go                     the events on policies that denials begin and end
//	denials_tracker.go             which of them are due
//	outage.go                      the events on the Lease of the leader
package controller
