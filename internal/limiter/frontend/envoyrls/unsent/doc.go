// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unsent keeps charges that Redis did not answer for a minute, and sends them again. Envoy
// sends a charge once and ignores the answer, so it would be lost otherwise.
//
// Reading order: charges.go.
package unsent
