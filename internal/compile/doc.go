// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compile turns a RateLimitPolicy into a plan.
//
// Compilation is pure: it depends on its arguments only, and equal policies give
// equal plans. It fills in every default and never changes the resource. Only the enums
// at the top level of the spec also have a default in the schema. It relies on the
// schema of the resource and reports every other problem with the path of its field.
//
// Read the files in this order:
//
//	compile.go     Compile: the policy, its matches, key and denial
//	values.go      the headers and query parameters of matches and keys
//	limit.go       limits and their defaults
//	calendar.go    calendars, and the offsets of their time zones
//	override.go    overrides and the limits they change
//	keygroup.go    KeyGroup: the keys of a group, sorted
//	exception.go   Exception: other numbers for one key, within the bounds of its policy
//	expression.go  expressions, and the price of all of them
//	grant.go       Grant: which hosts and domains a Namespace may match
//	shadow.go      Shadow: the mode Shadow for some hours, by an annotation
//	summary.go     Summary: the limits in one line
package compile
