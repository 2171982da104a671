// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backtest decides the requests of an access log by policies, as the engine decides
// checks, on the log's own time: what would these policies have denied?
//
// Read the files in this order:
//
//	attribute.go  the attributes of a request, and which of them a policy reads
//	entry.go      one logged request
//	text.go       the fields of a line: combined, Envoy
//	jsonlog.go    the fields of a line: JSON
//	source.go     Source: the lines of a log
//	order.go      lines in the order of their times
//	sample.go     verdicts by policy and key, and the sample of keys
//	replay.go     Run: from a log to a report
//	report.go     Report
//	svg.go        the report as a drawing
//	solve.go      Solve: the smallest threshold that denies at most a share
package backtest
