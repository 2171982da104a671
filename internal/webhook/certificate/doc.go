// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificate provides the serving certificate of the webhook: one that it
// issues and renews itself, or one from files. Without a certificate TLS handshakes
// fail and nothing else does; every failure is retried. Why this is not a library is
// in docs/decisions/0012-the-webhooks-certificate.md.
//
// Read the files in this order:
//
//	rotator.go  Rotator: issues the certificate, renews it, and sets the CA bundle
//	issue.go    the contents of the Secret, and issuing CAs and certificates
//	files.go    Files: a certificate from files, as cert-manager mounts them
package certificate
