// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policyfile reads RateLimitPolicies from YAML and JSON without a Kubernetes
// API server. It rejects a file for the same reasons, and with the same messages, as
// kubectl apply.
//
// Read the files in this order:
//
//	policyfile.go  Read: documents, lists and policies
//	schema.go      defaults and validation by the schema of the embedded CRD
package policyfile
