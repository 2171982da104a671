// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validate judges manifests offline: by the schema of the CRD, by compilation, and by
// the warnings of the webhook across all files together.
//
// The grants of Namespaces come from the Namespaces among the files. Without one, the tenancy
// of its policies is not checked.
//
// Read the files in this order:
//
//	source.go    Load: the files, folders and standard input
//	validate.go  Run: the policies and the findings
//	keygroup.go  the key groups among the files
//	exception.go the exceptions among the files
//	tenancy.go   grants from the Namespaces among the files
//	output.go    the findings as text, JSON and workflow commands of GitHub
package validate
