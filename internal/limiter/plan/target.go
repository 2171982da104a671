// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"slices"
	"strings"
)

// MaxTargets is the largest number of targets in one match, and in the attributes of one request.
const MaxTargets = 16

// Target is a Gateway or a route of the Gateway API that a request came through, as
// "<kind>/<namespace>/<name>", or a part of it, with "/<section>": a listener of the Gateway, a named rule of the route.
type Target string

// The kinds of targets.
const (
	TargetGateway   = "Gateway"
	TargetHTTPRoute = "HTTPRoute"
	TargetGRPCRoute = "GRPCRoute"
)

var targetKinds = []string{TargetGateway, TargetHTTPRoute, TargetGRPCRoute}

// TargetForm is what a target looks like, for messages.
const TargetForm = "must be Gateway, HTTPRoute or GRPCRoute, a Namespace and a name, such as HTTPRoute/shop/checkout, and perhaps /<section>"

var errTargetForm = errors.New(TargetForm)

// NewTarget returns the target, for the whole object if section is empty.
func NewTarget(kind, namespace, name, section string) Target {
	if section != "" {
		return Target(kind + "/" + namespace + "/" + name + "/" + section)
	}
	return Target(kind + "/" + namespace + "/" + name)
}

// MakeTarget is NewTarget for names from elsewhere. The error is TargetForm.
func MakeTarget(kind, namespace, name, section string) (Target, error) {
	if strings.Contains(kind+namespace+name, "/") {
		return "", errTargetForm
	}
	return ParseTarget(string(NewTarget(kind, namespace, name, section)))
}

// ParseTarget returns the text as a target. The error is TargetForm.
func ParseTarget(text string) (Target, error) {
	if t := Target(text); t.isValid() {
		return t, nil
	}
	return "", errTargetForm
}

func (t Target) isValid() bool {
	kind, rest, _ := strings.Cut(string(t), "/")
	namespace, rest, _ := strings.Cut(rest, "/")
	name, section, hasSection := strings.Cut(rest, "/")
	return slices.Contains(targetKinds, kind) && isName(namespace) && isName(name) && hasSection == (section != "") &&
		(section == "" || isName(section))
}

// Split returns the parts of a valid target.
func (t Target) Split() (kind, namespace, name, section string) {
	kind, rest, _ := strings.Cut(string(t), "/")
	namespace, rest, _ = strings.Cut(rest, "/")
	name, section, _ = strings.Cut(rest, "/")
	return kind, namespace, name, section
}

// Whole returns the target without its section.
func (t Target) Whole() Target {
	if strings.Count(string(t), "/") < 3 {
		return t
	}
	return t[:strings.LastIndexByte(string(t), '/')]
}

// Covers reports whether the other target is the same, or a part of this one.
func (t Target) Covers(other Target) bool {
	rest, below := strings.CutPrefix(string(other), string(t))
	return below && (rest == "" || rest[0] == '/') // no name contains a slash
}

func (m *Match) holdsTargets(a *Attributes) bool {
	return len(m.Targets) == 0 || slices.ContainsFunc(m.Targets, func(t Target) bool { return slices.ContainsFunc(a.Targets, t.Covers) })
}

func (m *Match) validateTargets(fail func(string, ...any), at string) {
	if len(m.Targets) > MaxTargets {
		fail("%s has %d targets, at most %d", at, len(m.Targets), MaxTargets)
	}
	for i, t := range m.Targets {
		if !t.isValid() {
			fail("%s.targets[%d] %q %s", at, i, t, TargetForm)
		}
	}
}
