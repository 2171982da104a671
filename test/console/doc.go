// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console opens every page of the console in Chromium: as a reader and as an operator, with
// the keyboard, on narrow and wide screens, dark and light. axe-core checks each page.
//
// Read the files in this order:
//
//	pages_test.go    the tests
//	browser_test.go  Chromium
//	site_test.go     a console with an hour of traffic
package console
