// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 judges RateLimitPolicies before the API server stores them.
//
// It refuses what the controller would not accept, no more and no less, since
// both ask internal/compile. What is accepted but probably not meant is said in
// warnings, which never refuse. A warning of something that "never" happens is
// given only where that can be shown from the policy alone.
package v1alpha1
