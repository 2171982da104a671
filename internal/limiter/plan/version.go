// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !weir_next_version

package plan

import (
	"regexp"
	"slices"
)

// Version is the version of the registry: of the encoding of plans and of the layout of their
// keys. A process reads and writes this version and the one before, so that two releases of
// adjacent versions can share a registry during a rollout.
//
// A release that changes the layout, or that changes the meaning of a plan, must raise it. A
// release that only adds a member or a value need not: an earlier reader rejects a plan with
// them and keeps the one it has, and the encoding of plans without them does not change.
//
// Version 2 has the targets, headers and query parameters of matches, cookies, query parameters and claims in keys, and
// their variables in expressions. A reader of version 1 would keep the plan it has, whose matches may be wider. It also
// has the costs of reservations, and blocks on commits: without them a reader would count and block requests that must pass.
// It has forbidden other entries, prefixes and exceptions of descriptors: without them matches are wider, too.
// And it has key groups, their names in overrides, exceptions, and slices: a reader that does not count them would admit
// more than a quota.
const Version = 2

// expressibleBefore reports whether the version before can express the record.
func expressibleBefore(r Record) bool {
	p, ok := r.(*Plan)
	return ok && p.Reservations.Cost == "" && !p.Slices.Allowed() && !p.Reservations.BlockOnCommit &&
		!slices.ContainsFunc(p.Matches, func(m Match) bool {
			return len(m.Targets) > 0 || m.readsValues() || m.hasNewEntries() || readsNewVariable(m.When)
		}) &&
		!slices.ContainsFunc(p.Key, func(k KeyPart) bool { return k.hasNewSource() || readsNewVariable(k.Expression) }) &&
		!slices.ContainsFunc(p.Overrides, func(o Override) bool { return len(o.Groups) > 0 || readsNewVariable(o.When) })
}

// hasNewEntries reports whether the match wants descriptors in a way that version 1 lacks.
func (m *Match) hasNewEntries() bool {
	return m.ForbidsOtherEntries || slices.ContainsFunc(m.Descriptors, func(w EntryMatch) bool { return w.Prefix || w.exceptions() > 0 })
}

// newVariable matches the variables of expressions that version 1 lacks. It may also match the text of a constant, with
// which version 1 would do.
var newVariable = regexp.MustCompile(`request\s*\.\s*(query|cookies)\b|\bclaims\b`)

func readsNewVariable(expression string) bool { return newVariable.MatchString(expression) }
