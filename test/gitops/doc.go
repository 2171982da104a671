// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops applies the chart and policies with the libraries of Flux and Argo CD, on a real kube-apiserver and
// beside a running Weir: nothing may differ afterwards. It is a Go module of its own, so that these libraries are no
// dependencies of Weir.
package gitops
