// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager tests and measures weir manager as processes on a real kube-apiserver and a real Redis. All tests use one
// API server, one after the other, so none of them may be parallel.
//
// Reading order: cluster_test.go (what the tests share), manager_test.go (policies, outages of the API server, failover, the two
// halves), namespaces_test.go and installation_test.go (several Namespaces, several installations), outage_test.go and
// local_test.go (without Redis), webhook_test.go, dashboards_test.go (queries in Prometheus). The benchmarks of `make scale`:
// scale_test.go with memorylimit_test.go (many policies), scale_keys_test.go (many keys), stubapi_test.go (decisions while
// statuses are written).
package manager
