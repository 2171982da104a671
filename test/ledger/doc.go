// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger holds the ledger of docs/security.md: what an object or message of an untrusted party costs at most, in units
// of its own encoded size. A product of two things that one party owns fails it.
//
// Reading order: judge_test.go (what a product looks like), measure_test.go (how a cost is measured), ledger_test.go (the table
// of the page and the test of its rows), then the rows: policies_test.go, reviews_test.go, groups_test.go (key groups and
// exceptions), gateways_test.go, requests_test.go, expressions_test.go.
package ledger
