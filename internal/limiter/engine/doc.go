// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine decides checks from a snapshot of plans.
package engine
