// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package standalone runs the decision endpoint without Kubernetes. Policies come
// from files, which are reloaded when they change, and plans are kept in memory.
// Counters live in a given Redis, which any number of processes may share, or in this
// process.
//
// Read the files in this order:
//
//	standalone.go  Server: New, Run and the Redis client
//	policies.go    policyFiles: the plans compiled from all files
//	exceptions.go  the exceptions, judged by the policies of all files
//	watch.go       reloading the files when they change
package standalone
