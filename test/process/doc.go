// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process tests weir as processes on a real Redis, without Kubernetes. test/manager tests it with Kubernetes,
// test/faults with broken servers under load.
//
// Reading order: standalone_test.go (one limit in four processes, blocks, the README, stopping), concurrency_test.go and
// slices_test.go (quotas are exact across processes), state_test.go (the calls on the state of keys), local_test.go and
// startup_test.go (without Redis), redis_test.go (the flags of Redis), tls_test.go, ports_test.go (ports that are taken),
// smoketest_test.go (weir smoke-test).
package process
