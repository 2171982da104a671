// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificate finds the certificate that the webhook is served with: one
// it makes and renews itself, or one in files.
//
// Whoever makes certificates here only ever waits and tries again. Without one,
// handshakes fail and nothing else does; why it was not a library is in
// docs/decisions/0012-the-webhooks-certificate.md.
package certificate
