// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migration puts the same calls to envoyproxy/ratelimit and to Weir with the converted policies.
//
// The answers of the service are recorded in testdata/answers.yaml, so a run needs only Weir. With the program of the
// service in RATELIMIT_BIN a run also compares its answers with the record, and -record rewrites it:
//
//	RATELIMIT_BIN=/path/to/ratelimit go test ./test/migration -record
//
// The record is of the commit in testdata/answers.yaml. Calls of one scenario must fall into one UTC day.
//
// Read the files in this order:
//
//	doc.go            this page
//	scenarios_test.go configurations and calls, by hand and at random
//	servers_test.go   Weir and the service, and their answers
//	replay_test.go    the comparison
//	walks_test.go     the commands of docs/migration.md
package migration
