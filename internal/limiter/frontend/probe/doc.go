// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe answers requests that find out whether a URL asks Weir. An operator gets a one-time code and sends it as a
// header of a request through the proxy. If the proxy asks Weir, the replica answers the request itself, with what it saw.
//
// It guarantees:
//   - A code is valid once, for Life, at any replica. Redis has only its hash.
//   - Invented codes cost Redis at most lookupsPerSecond calls of each replica.
//   - A request without a valid code is decided as if it had no header. So is every request while Redis does not answer.
//   - The answer has at most maxAnswer bytes. It names policies only of the Namespace that the code is for.
//   - Nothing is spent, counted or written.
//
// Reading order: prober.go (issues codes and answers requests that have one), store.go (keeps codes), report.go (makes
// the answer).
package probe
