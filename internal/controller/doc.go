// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller keeps the registry in step with the RateLimitPolicies of
// the cluster and says on each of them how far it has got.
//
// It works only while its process leads, and each pass ends with the term it
// began in. It needs no finalizer: a policy that is gone has its plan deleted
// when that is noticed, and whatever was missed is swept when a term begins and
// when Redis comes back. It knows neither Redis nor counters; what it needs of the
// registry is the interface Publisher.
package controller
