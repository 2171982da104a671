// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Attribute is a fact of a logged request: one of those below, or a header or an entry of the
// descriptor by name.
type Attribute string

// The attributes.
const (
	AttributeTime          Attribute = "time"
	AttributeDate          Attribute = "date" // of a time in another field
	AttributeStatus        Attribute = "status"
	AttributeMethod        Attribute = "method"
	AttributeHost          Attribute = "host"
	AttributePath          Attribute = "path"
	AttributeRemoteAddress Attribute = "remoteAddress"
	AttributePrincipal     Attribute = "principal"
	AttributeDomain        Attribute = "domain"
	AttributeTargets       Attribute = "targets"

	// AttributeRequest is a request line, such as "GET / HTTP/1.1": method and path.
	AttributeRequest Attribute = "request"

	headerPrefix     = "header."
	descriptorPrefix = "descriptor."
	claimPrefix      = "claim." // and the names of the payload and of the claim, with a dot between
)

var attributes = []Attribute{
	AttributeTime, AttributeDate, AttributeStatus, AttributeMethod, AttributeHost, AttributePath, AttributeRemoteAddress,
	AttributePrincipal, AttributeDomain, AttributeTargets, AttributeRequest,
}

// ParseAttribute returns the attribute with the name.
func ParseAttribute(name string) (Attribute, error) {
	if header, ok := strings.CutPrefix(name, headerPrefix); ok && header != "" {
		return headerAttribute(header), nil
	}
	claim, isClaim := strings.CutPrefix(name, claimPrefix)
	if entry, ok := strings.CutPrefix(name, descriptorPrefix); ok && entry != "" || isClaim && claim != "" || slices.Contains(attributes, Attribute(name)) {
		return Attribute(name), nil
	}
	return "", fmt.Errorf("unknown attribute %q: must be one of %q, %sNAME, %sKEY or %sPAYLOAD.NAME", name, attributes, headerPrefix, descriptorPrefix, claimPrefix)
}

func headerAttribute(name string) Attribute { return Attribute(headerPrefix + strings.ToLower(name)) }

// need is an attribute that a policy reads, and the field of the policy that reads it.
type need struct {
	attribute Attribute
	policy    string
	field     string
}

// needsOf returns the attributes that the plan reads, each once.
func needsOf(p *plan.Plan) []need {
	n := &needs{policy: p.ID()}
	for i := range p.Matches {
		n.addMatch(&p.Matches[i], fmt.Sprintf("spec.matches[%d]", i))
	}
	for i := range p.Key {
		n.addKeyPart(&p.Key[i], fmt.Sprintf("spec.key[%d]", i))
	}
	for i := range p.Overrides {
		o, at := &p.Overrides[i], fmt.Sprintf("spec.overrides[%d]", i)
		n.addIf(len(o.CIDRs) > 0, AttributeRemoteAddress, at+".cidrs")
		n.addExpression(o.When, at+".when")
	}
	return n.found
}

// needs collects the attributes that one policy reads.
type needs struct {
	policy string
	found  []need
}

func (n *needs) addIf(reads bool, a Attribute, field string) {
	if reads && !slices.ContainsFunc(n.found, func(other need) bool { return other.attribute == a }) {
		n.found = append(n.found, need{attribute: a, policy: n.policy, field: field})
	}
}

func (n *needs) addMatch(m *plan.Match, at string) {
	n.addIf(len(m.Targets) > 0, AttributeTargets, "spec.targetRefs")
	n.addIf(len(m.Hosts) > 0, AttributeHost, at+".hosts")
	n.addIf(len(m.Methods) > 0, AttributeMethod, at+".methods")
	n.addIf(len(m.Paths) > 0, AttributePath, at+".paths")
	for _, h := range m.Headers {
		n.addIf(true, headerAttribute(h.Key), at+".headers")
	}
	n.addIf(len(m.QueryParameters) > 0, AttributePath, at+".queryParameters")
	n.addIf(m.Domain != "", AttributeDomain, at+".domain")
	for _, d := range m.Descriptors {
		n.addIf(true, Attribute(descriptorPrefix+d.Key), at+".descriptors")
	}
	n.addExpression(m.When, at+".when")
}

func (n *needs) addKeyPart(part *plan.KeyPart, at string) {
	switch part.Type {
	case plan.KeyHeader:
		n.addIf(true, headerAttribute(part.Header), at)
	case plan.KeyCookie:
		n.addIf(true, headerAttribute("cookie"), at)
	case plan.KeyQueryParameter:
		n.addIf(true, AttributePath, at)
	case plan.KeyClaim:
		n.addIf(true, Attribute(claimPrefix+part.Claim.Payload+"."+part.Claim.Name), at)
	case plan.KeyRemoteAddress:
		n.addIf(true, AttributeRemoteAddress, at)
	case plan.KeyDescriptor:
		n.addIf(true, Attribute(descriptorPrefix+part.Descriptor), at)
	case plan.KeyPrincipal:
		n.addIf(true, AttributePrincipal, at)
	case plan.KeyExpression:
		n.addExpression(part.Expression, at)
	}
}

// variables are the attributes of the variables of expressions whose members need no attributes of their own. The path
// of a log has the query.
var variables = map[string]Attribute{
	"request.method": AttributeMethod, "request.host": AttributeHost, "request.path": AttributePath, "request.query": AttributePath,
	"request.domain": AttributeDomain, "principal": AttributePrincipal, "remoteAddress": AttributeRemoteAddress,
}

// addExpression adds what the expression of a valid plan reads. A map that it reads as a whole
// is the attribute with an empty name, which no log has.
func (n *needs) addExpression(text, field string) {
	if text == "" {
		return
	}
	references, _ := expression.References(text) // the plan compiled
	for _, r := range references {
		switch r.Variable {
		case "request.headers":
			n.addIf(true, headerAttribute(r.Member), field)
		case "request.cookies":
			n.addIf(true, headerAttribute("cookie"), field)
		case "claims":
			n.addIf(true, Attribute(claimPrefix+r.Member), field)
		case "descriptor":
			n.addIf(true, Attribute(descriptorPrefix+r.Member), field)
		default:
			n.addIf(true, variables[r.Variable], field)
		}
	}
}

// missing returns an error for each attribute that a policy reads and the log lacks.
func missing(plans []*plan.Plan, has map[Attribute]bool) (errs []error) {
	for _, p := range plans {
		if p.Mode == plan.ModeDisabled {
			continue
		}
		for _, n := range needsOf(p) {
			if !has[n.attribute] {
				errs = append(errs, n.missing())
			}
		}
	}
	return errs
}

// missing returns that the log lacks the attribute.
func (n *need) missing() error {
	if n.attribute == headerPrefix || n.attribute == descriptorPrefix || n.attribute == claimPrefix {
		return fmt.Errorf("policy %s: %s reads all of %s, which no log has", n.policy, n.field, strings.TrimSuffix(string(n.attribute), "."))
	}
	advice := fmt.Sprintf("name its field with --map %s=FIELD", n.attribute)
	if n.attribute == AttributeHost {
		advice = "set it with --host, or --map host=FIELD"
	}
	return fmt.Errorf("policy %s: %s needs the attribute %s, which the log lacks; %s", n.policy, n.field, n.attribute, advice)
}

// withRequest returns the attributes, after the request line if one of them may come from it: a
// field of its own wins.
func withRequest(needed []Attribute) []Attribute {
	if slices.Contains(needed, AttributeMethod) || slices.Contains(needed, AttributePath) {
		return append([]Attribute{AttributeRequest}, needed...)
	}
	return needed
}

// needed returns all attributes that the plans read, with time and status.
func needed(plans []*plan.Plan) []Attribute {
	all := map[Attribute]bool{AttributeTime: true, AttributeStatus: true}
	for _, p := range plans {
		for _, n := range needsOf(p) {
			all[n.attribute] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
