// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

// PlansKey is the hash in Redis that holds the plans.
const PlansKey = "weir:1:{registry}"
