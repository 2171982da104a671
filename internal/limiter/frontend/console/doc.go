// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console is the web console of the operator port: pages that show policies, rates and
// keys, and forms that lift, reset and block keys.
//
// It guarantees:
//   - Everything that a page shows or changes comes from a call of package httpapi with the token of
//     the session, so it has the rights, the masks and the log lines of the API.
//   - A page works without script, and loads nothing from elsewhere.
//   - The token never reaches the browser.
//
// Reading order:
//
//	console.go   options, routes and headers
//	session.go   sessions and one-time codes
//	login.go     how a session begins and ends
//	guest.go     what a visitor without a session may do
//	call.go      calls of the API within the process
//	page.go      from the data of a page to a response
//	html.go      escaping and links
//	layout.go    what surrounds every page
//	parts_html.go  what pages share
//	load.go      parts of a page that load at the same time
//	format.go    numbers, times and keys as text
//	plot.go      rates as a drawing
//	overview.go  the overview, with overview_html.go
//	policies.go  the list of policies, with policies_html.go
//	policy.go    one policy, with policy_html.go, on top of
//	facts.go       a plan as text
//	key.go       one key, with key_html.go, on top of
//	window.go      its limits as a drawing
//	change.go    changes of a key, and their confirmation, with change_html.go
//	try.go       the explanation of a request, with try_html.go
//	login_html.go  the pages without a session
package console
