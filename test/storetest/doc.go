// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest is the suite of tests that every store of limits passes, from outside. Only tests
// import it: each package with a store has one file that calls it.
//
// Reading order:
//
//	subject.go         Subject, a store under test with a clock
//	promises.go        TestPromises: what every store promises, without a model
//	window.go            never more than the quota
//	wait.go              retryAfter and the other predictions
//	edge.go              the largest numbers, and a clock that is set back
//	calendar.go          periods of a calendar
//	buckets.go           SlidingWindow, and buckets that an edit makes smaller
//	two_plans.go         two plans of one policy in turn
//	suppressed.go        Suppressed
//	overflow.go          keys that are not known
//	holds.go             holds
//	concurrency.go     TestConcurrency: promises with calls from many goroutines
//	blocks.go          TestBlockLists: the lists of blocks
//	scenario.go        TestScenarios: files of calls with their replies
//	scenario_parse.go    the syntax of the files
//	model.go           TestAgreesWithModel: random steps, compared with the model
//	workload.go          random policies and calls
//	difference.go        the parts of two replies that differ
//	fuzz.go              any arguments of a call
//	calls.go           limits and calls for other tests
package storetest
