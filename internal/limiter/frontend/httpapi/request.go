// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Bounds of a check, in addition to maxBody and maxText.
const (
	maxHeaders      = 1024
	maxHeaderValues = 64
	maxDescriptors  = 16
	maxPayloads     = 16
	maxClaims       = 256 // of an object, and of a list
	maxEntries      = 16
	// maxMembers is larger than the number of known members of any object.
	maxMembers = 16
)

// decode parses the body of a check and overwrites it. Errors are *limiter.FieldError.
func (q *request) decode(body []byte) error {
	r := &reader{data: body}
	if err := r.start(); err != nil {
		return err
	}
	if err := r.check(q, nil); err != nil {
		return err
	}
	return r.end()
}

// start returns an error unless the text is UTF-8 and not empty.
func (r *reader) start() error {
	switch {
	case !utf8.Valid(r.data):
		return invalid("must be UTF-8")
	case r.end() == nil:
		return invalid("is empty")
	}
	return nil
}

// check reads the members of a check. other, unless nil, reads members that a check does not have.
func (r *reader) check(q *request, other func(name string) error) error {
	check, matching := &q.check, false
	err := r.object(maxMembers, func(name []byte) (err error) {
		switch string(name) {
		case "policies":
			check.Policies, err = r.policies(q.policies[:0])
		case "key":
			check.Key, err = r.key(q.key[:0], limiter.KeyProblem)
		case "attributes":
			matching, err = true, r.attributes(&check.Attributes, q.headers)
		case "cost":
			check.Cost, err = r.integer(1, plan.MaxCost)
		case "peek":
			check.Peek, err = r.boolean()
		default:
			if other == nil {
				return unknown()
			}
			err = other(string(name))
		}
		return err
	})
	if err == nil && check.Policies == nil && !matching {
		err = inField("policies", invalid("is required without attributes"))
	}
	return err
}

func unknown() error { return invalid("is not a known member") }

// policies reads a list of policy names into the empty slice. An empty list is rejected: a
// caller that computed it hardly meant "every policy that matches".
func (r *reader) policies(names []string) ([]string, error) {
	err := r.array(limiter.MaxChain, func() error {
		name, err := r.text()
		if err != nil {
			return err
		}
		if problem := policyNameProblem(name, names); problem != "" {
			return invalid(problem)
		}
		names = append(names, name)
		return nil
	})
	if err == nil && len(names) == 0 {
		err = invalid("must name at least one policy")
	}
	return names, err
}

// policyNameProblem returns why the name of a policy is invalid after those before it, or
// an empty string.
func policyNameProblem(name string, before []string) string {
	namespace, rest, _ := strings.Cut(name, "/")
	switch {
	case namespace == "" || rest == "" || strings.Contains(rest, "/"):
		return "must be <namespace>/<name>"
	case slices.Contains(before, name):
		return "is named twice"
	}
	return ""
}

// key reads a key into the empty slice: a string for one part, or a list of strings, one per
// part.
func (r *reader) key(parts []string, problemOf func(part string) string) ([]string, error) {
	switch r.next() {
	case '"':
		part, err := r.keyPart(problemOf)
		return append(parts, part), err
	case '[':
		err := r.array(plan.MaxKeyParts, func() error {
			part, err := r.keyPart(problemOf)
			parts = append(parts, part)
			return err
		})
		if err == nil && len(parts) == 0 {
			err = invalid("must have at least one part")
		}
		return parts, err
	default:
		return nil, r.expected("a string or a list of strings")
	}
}

func (r *reader) keyPart(problemOf func(part string) string) (string, error) {
	part, err := r.text()
	if err != nil {
		return "", err
	}
	if problem := problemOf(part); problem != "" {
		return "", invalid(problem)
	}
	return part, nil
}

// attributes reads the attributes of a request, and its headers into the empty map. An empty
// string means absent, except for remoteAddress, where it is invalid.
func (r *reader) attributes(a *plan.Attributes, headers map[string]string) error {
	return r.object(maxMembers, func(name []byte) (err error) {
		switch string(name) {
		case "method":
			a.Method, err = r.text()
		case "host":
			a.Host, err = r.text()
		case "path":
			a.Path, err = r.text()
		case "principal":
			a.Principal, err = r.text()
		case "headers":
			a.Headers = headers
			a.RepeatedHeaders, err = r.headers(headers)
		case "remoteAddress":
			a.RemoteAddress, err = r.address()
		case "claims":
			a.Claims, err = r.claims()
		case "domain":
			a.Domain, err = r.text()
		case "targets":
			a.Targets, err = r.targets()
		case "descriptors":
			a.Descriptors, err = r.descriptors()
		default:
			err = unknown()
		}
		return err
	})
}

// headers reads header values by name into the empty map and returns the names of repeated
// headers, whose value is a list. Names are case-insensitive, and a name that occurs twice in
// different case is rejected.
func (r *reader) headers(headers map[string]string) (repeated []string, err error) {
	err = r.object(maxHeaders, func(name []byte) error {
		lower := strings.ToLower(string(name))
		if _, twice := headers[lower]; twice {
			return invalid("occurs twice")
		}
		if lower == "" || len(lower) > maxText {
			return invalid(fmt.Sprintf("must have a name of 1 to %d bytes", maxText))
		}
		value, isRepeated, err := r.headerValue()
		headers[lower] = plan.TrimValue(value)
		if isRepeated {
			repeated = append(repeated, lower)
		}
		return err
	})
	return repeated, err
}

// headerValue reads the value of a header: a string, or a list of strings, which are joined with
// commas. repeated is true for a list of several.
func (r *reader) headerValue() (value string, repeated bool, err error) {
	if r.next() != '[' {
		if r.next() != '"' {
			return "", false, r.expected("a string or a list of strings")
		}
		value, err = r.text()
		return value, false, err
	}
	var values []string
	err = r.array(maxHeaderValues, func() error {
		value, err := r.text()
		values = append(values, value)
		return err
	})
	return strings.Join(values, ","), len(values) > 1, err
}

func (r *reader) address() (netip.Addr, error) {
	literal, err := r.text()
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(literal)
	if err != nil {
		return netip.Addr{}, invalid("must be an IPv4 or IPv6 address")
	}
	return addr, nil
}

// claims reads {"<payload>": {"<claim>": <value>}}.
func (r *reader) claims() (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	err := r.object(maxPayloads, func(name []byte) error {
		payload := string(name)
		if payload == "" || len(payload) > maxText {
			return invalid(fmt.Sprintf("must have a name of 1 to %d bytes", maxText))
		}
		if r.next() != '{' {
			return r.expected("an object with the claims of a token")
		}
		claims, err := r.jsonObject(plan.MaxClaimDepth)
		all[payload] = plan.ClaimsOf(claims)
		return err
	})
	return all, err
}

func (r *reader) targets() (all []plan.Target, err error) {
	err = r.array(plan.MaxTargets, func() error {
		text, err := r.text()
		if err != nil {
			return err
		}
		t, err := plan.ParseTarget(text)
		if err != nil {
			return invalid(err.Error())
		}
		all = append(all, t)
		return nil
	})
	return all, err
}

// descriptors reads [{"entries": [{"key": "...", "value": "..."}]}].
func (r *reader) descriptors() (all []plan.Descriptor, err error) {
	err = r.array(maxDescriptors, func() error {
		d, err := r.descriptor()
		all = append(all, d)
		return err
	})
	return all, err
}

func (r *reader) descriptor() (d plan.Descriptor, err error) {
	given := false
	err = r.object(maxMembers, func(name []byte) error {
		if string(name) != "entries" {
			return unknown()
		}
		given = true
		return r.array(maxEntries, func() error {
			e, err := r.descriptorEntry()
			d = append(d, e)
			return err
		})
	})
	if err == nil && !given {
		err = inField("entries", invalid("is required"))
	}
	return d, err
}

func (r *reader) descriptorEntry() (e plan.Entry, err error) {
	err = r.object(maxMembers, func(name []byte) (err error) {
		switch string(name) {
		case "key":
			e.Key, err = r.text()
		case "value":
			e.Value, err = r.text()
			e.Value = plan.TrimValue(e.Value)
		default:
			err = unknown()
		}
		return err
	})
	if err == nil && e.Key == "" {
		err = inField("key", invalid("must not be empty"))
	}
	return e, err
}
