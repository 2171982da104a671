// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policyfile reads RateLimitPolicies and RateLimitKeyGroups from YAML and JSON without a Kubernetes
// API server. It rejects a file for the same reasons, and with the same messages, as
// kubectl apply, and knows the line and column of every field.
//
// Read the files in this order:
//
//	list.go        List: the files of a folder
//	parse.go       Parse: policies, key groups, Namespaces and problems with their positions
//	object.go      one object of a document
//	position.go    the line and column of a field
//	schema.go      defaults and validation by the schemas of the embedded CRDs
//	rules.go       the CEL rules of valid objects, fast
//	suggest.go     names that were probably meant
package policyfile
