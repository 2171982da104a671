// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin runs kubectl weir as a program against a real kube-apiserver, with weir as a process where a command
// needs one. cmd/kubectl-weir has the tests that need neither.
//
// Reading order: main_test.go (the program, the API server, weir), access_test.go (what the chart renders, too),
// shadow_test.go, groups_test.go, raise_test.go (commands that change a cluster), standalone_test.go (no cluster),
// wire_test.go (manifests for Envoy Gateway), targets_test.go (Gateways and routes) through kubelet_test.go (a
// port-forward), runbook_test.go, exceptions_page_test.go and tiers_page_test.go (pages of docs, as printed).
package plugin
