// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// unreadFacts warns of expressions of headers that proxies set or remove, and of keys that no call of Envoy's rate
// limit protocol has. Programs can give both to /v1/check, so they are valid.
func unreadFacts(p *plan.Plan) (warnings []string) {
	for i := range p.Matches {
		warnings = append(warnings, hiddenHeaders(at("matches", i).Child("when"), p.Matches[i].When)...)
	}
	descriptors := descriptorMatch(p)
	for i := range p.Key {
		warnings = append(warnings, hiddenHeaders(at("key", i).Child("expression", "cel"), p.Key[i].Expression)...)
		if descriptors >= 0 && !isOfDescriptors(&p.Key[i]) {
			warnings = append(warnings, fmt.Sprintf("%s has no value in a call of Envoy's rate limit protocol, which has only a domain and descriptors, as %s wants: write a part of type Descriptor",
				at("key", i), at("matches", descriptors)))
		}
	}
	for i := range p.Overrides {
		warnings = append(warnings, hiddenHeaders(at("overrides", i).Child("when"), p.Overrides[i].When)...)
	}
	return warnings
}

// hiddenHeaders warns of the constant names of headers that no proxy passes to an expression.
func hiddenHeaders(at *field.Path, text string) (warnings []string) {
	if !strings.Contains(text, "headers") {
		return nil
	}
	references, _ := expression.References(text) // the plan compiled, or comes from another release
	for _, r := range references {
		name := http.CanonicalHeaderKey(r.Member)
		if r.Variable != "request.headers" || r.Member == "" || name != "Host" && plan.IsRequestHeader(name) {
			continue
		}
		advice := ""
		if variable := plan.VariableFor(name); variable != "" {
			advice = ": use " + variable
		}
		warnings = append(warnings, fmt.Sprintf("%s reads the header %q, which only /v1/check can have: proxies set or remove it%s", at, r.Member, advice))
	}
	return warnings
}

// descriptorMatch returns the index of the first match by domain or descriptors, or -1.
func descriptorMatch(p *plan.Plan) int {
	return slices.IndexFunc(p.Matches, func(m plan.Match) bool { return m.Domain != "" || len(m.Descriptors) > 0 })
}

// isOfDescriptors reports whether a call with only a domain and descriptors may have a value for the part.
func isOfDescriptors(part *plan.KeyPart) bool {
	return !slices.Contains([]plan.KeyPartType{plan.KeyHeader, plan.KeyCookie, plan.KeyQueryParameter, plan.KeyRemoteAddress}, part.Type)
}
