// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates the CEL expressions of policies on the attributes of a
// request.
//
// An expression is compiled once and evaluated by any number of goroutines. Compile rejects
// an expression that takes too long for any request. Evaluations have no limit of their own.
//
// Reading order:
//
//	expression.go     Compile and Evaluate
//	program.go        what Compile makes of a checked expression
//	cost.go           the cost of a request by the code of its response
//	environment.go    the variables and functions
//	issues.go         errors in the text, with the names that were probably meant
//	references.go     the variables that an expression reads
//	textmap.go        the variables that are maps
//	headermap.go      the headers
//	valuemap.go       the query parameters and the cookies
//	claimmap.go       the claims
//	descriptormap.go  the entries of descriptors
//	price.go          the price: the longest time of an evaluation
//	functions.go      the price of each function
//	costs.go          the figures that prices are made of
//	bound.go          upper bounds of the sizes of values
//	pattern.go        regular expressions, and their price
//	automaton.go      regular expressions whose time depends on the text only
//	replaced.go       functions that replace functions of the library
package expression
