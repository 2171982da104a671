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

var (
	errTargetForm  = errors.New(TargetForm)
	errGatewayForm = errors.New("must be <namespace>/<name> of a Gateway, and perhaps /<listener>")
)

// GatewayExtension is the context extension of ext_authz that names the Gateway, see ParseGateway.
const GatewayExtension = "weir.gateway"

// NewTarget returns the target, for the whole object if section is empty. The error is TargetForm.
func NewTarget(kind, namespace, name, section string) (Target, error) {
	if strings.Contains(kind+namespace+name, "/") {
		return "", errTargetForm
	}
	text := kind + "/" + namespace + "/" + name
	if section != "" {
		text += "/" + section
	}
	return ParseTarget(text)
}

// ParseTarget returns the text as a target. The error is TargetForm.
func ParseTarget(text string) (Target, error) {
	if t := Target(text); t.isValid() {
		return t, nil
	}
	return "", errTargetForm
}

// ParseGateway returns the Gateway that proxies name as "<namespace>/<name>", and perhaps "/<listener>". The error is the form.
func ParseGateway(text string) (Target, error) {
	if t := Target(TargetGateway + "/" + text); t.isValid() {
		return t, nil
	}
	return "", errGatewayForm
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

// TargetTexts returns the targets as texts; nil for none.
func TargetTexts(targets []Target) (texts []string) {
	for _, t := range targets {
		texts = append(texts, string(t))
	}
	return texts
}

// Targets returns the targets of all matches, each once.
func (p *Plan) Targets() []Target {
	var targets []Target
	for i := range p.Matches {
		for _, t := range p.Matches[i].Targets {
			if !slices.Contains(targets, t) {
				targets = append(targets, t)
			}
		}
	}
	return targets
}

// HoldsTargets reports whether the match holds for the targets of the request.
func (m *Match) HoldsTargets(a *Attributes) bool {
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
