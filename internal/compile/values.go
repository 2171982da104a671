// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

func headersOf(m *v1alpha1.Match) (entries []plan.Entry) {
	for _, h := range m.Headers {
		entries = append(entries, plan.Entry{Key: strings.ToLower(h.Name), Value: h.Value})
	}
	return entries
}

func queryParametersOf(m *v1alpha1.Match) (entries []plan.Entry) {
	for _, p := range m.QueryParameters {
		entries = append(entries, plan.Entry{Key: p.Name, Value: p.Value})
	}
	return entries
}

// entryMatchOf returns what the match wants of one entry. It sorts the exceptions, and leaves out those that others cover.
func entryMatchOf(d *v1alpha1.DescriptorMatch) plan.EntryMatch {
	w := plan.EntryMatch{Key: d.Key, Value: d.Value, Prefix: d.Type == v1alpha1.EntryMatchPrefix}
	for _, text := range d.Except {
		if prefix, isPrefix := strings.CutSuffix(text, "*"); isPrefix {
			w.ExceptPrefixes = append(w.ExceptPrefixes, prefix)
		} else {
			w.Except = append(w.Except, text)
		}
	}
	slices.Sort(w.Except)
	w.Except, w.ExceptPrefixes = slices.Compact(w.Except), shortest(w.ExceptPrefixes)
	return w
}

// shortest returns the prefixes that begin with no other one, in order.
func shortest(prefixes []string) (kept []string) {
	for _, prefix := range slices.Sorted(slices.Values(prefixes)) {
		if n := len(kept); n == 0 || !strings.HasPrefix(prefix, kept[n-1]) {
			kept = append(kept, prefix)
		}
	}
	return kept
}

// checkDescriptors adds the problems of entries that never match.
func (c *compiler) checkDescriptors(at *field.Path, descriptors []v1alpha1.DescriptorMatch) {
	for i, d := range descriptors {
		value := d.Value
		if d.Type == v1alpha1.EntryMatchPrefix {
			value += "*" // spaces at the end of a prefix are inside values
		}
		c.checkTrimmed(at.Index(i).Child("value"), value)
		for j, text := range d.Except {
			at := at.Index(i).Child("except").Index(j)
			c.checkTrimmed(at, text)
			if prefix, isPrefix := strings.CutSuffix(text, "*"); isPrefix && strings.HasPrefix(d.Value, prefix) {
				c.add(field.Invalid(at, text, "excludes every value that begins with "+d.Value))
			}
		}
	}
}

// checkHeaders adds the problems of headers that never match, or that are given twice.
func (c *compiler) checkHeaders(at *field.Path, headers []v1alpha1.HeaderMatch) {
	seen := map[string]bool{}
	for i, h := range headers {
		name, at := http.CanonicalHeaderKey(h.Name), at.Index(i)
		switch {
		case seen[name]:
			c.add(field.Duplicate(at.Child("name"), h.Name))
		case name == "Host":
			c.add(field.Invalid(at.Child("name"), h.Name, "never matches: write hosts"))
		case !plan.IsRequestHeader(name):
			c.add(field.Invalid(at.Child("name"), h.Name, "never matches: Weir does not see this header, which proxies set or remove"))
		}
		seen[name] = true
		for element := range strings.SplitSeq(h.Value, ",") {
			if h.Value != "" && plan.TrimValue(element) == "" {
				c.add(field.Invalid(at.Child("value"), h.Value, "must be a value, or values separated by commas"))
				break
			}
		}
		c.checkTrimmed(at.Child("value"), h.Value)
	}
}

// checkHeaderKey adds the problem of a part of a key that no request has: all clients would share one budget.
func (c *compiler) checkHeaderKey(at *field.Path, header string) {
	name := http.CanonicalHeaderKey(header)
	if name != "Host" && plan.IsRequestHeader(name) {
		return
	}
	problem := "has no value: Weir does not see this header, which proxies set or remove"
	if variable := plan.VariableFor(name); name == plan.HeaderFor {
		problem += "; use RemoteAddress"
	} else if variable != "" {
		problem += "; use " + variable + " in an Expression"
	}
	c.add(field.Invalid(at, header, problem))
}

// checkQueryParameters adds the problems of parameters that never match.
func (c *compiler) checkQueryParameters(at *field.Path, parameters []v1alpha1.QueryParameterMatch) {
	for i, p := range parameters {
		c.checkTrimmed(at.Index(i).Child("name"), p.Name)
		c.checkTrimmed(at.Index(i).Child("value"), p.Value)
	}
}

// neverApplies is the problem of a key with outer spaces.
const neverApplies = "never applies: spaces at both ends are removed from the values of requests"

func (c *compiler) checkTrimmed(at *field.Path, text string) {
	if strings.TrimSpace(text) != text {
		c.add(field.Invalid(at, text, "never matches: spaces at both ends are removed before matching"))
	}
}
