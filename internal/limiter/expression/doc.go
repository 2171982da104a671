// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates the CEL expressions of policies on the attributes of a
// request.
//
// An expression is compiled once and evaluated by any number of goroutines. Compile rejects
// an expression that may be too expensive for any request.
//
// Reading order:
//
//	expression.go   Compile and Evaluate
//	environment.go  the variables and functions
//	references.go   the variables that an expression reads
//	textmap.go      the variables that are maps
//	cost.go         the largest cost of an expression
package expression
