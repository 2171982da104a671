// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager runs both halves of Weir in one process. The decision half
// follows the registry and answers checks; the Kubernetes half publishes the
// policies of the API server while this process is the leader. Neither waits for
// the other: while the API server is down, decisions are made from the registry,
// even by a process that starts during the outage.
//
// Read the files in this order:
//
//	manager.go      Options and Run: the two halves and their servers
//	controllers.go  the Kubernetes half: one controller-runtime manager
//	namespaces.go   whose policies are enforced: Namespaces, and caches limited to them
//	keyroom.go      how many keys of key groups the caches hold
//	reconnect.go    the caches after an outage of the API server
//	elector.go      leader election on a Lease, and the term in the registry
//	installation.go the name of the installation
//	metrics.go      the numbers of policies by condition, while leading
//	webhook.go      the validating webhook and its certificate
package manager
