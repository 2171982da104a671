// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// target is the key that a state call names.
type target struct {
	policy   string
	key      []string      // nil for the shared budget of a policy without a key
	duration time.Duration // of a block
}

// validate checks what does not depend on the policy. The engine validates the rest, after
// the caller is authorized.
func (t *target) validate() error {
	if problem := policyNameProblem(t.policy, nil); problem != "" {
		return inField("policy", invalid(problem))
	}
	return nil
}

// targetOfQuery reads policy, key (once per part) and, for overrides that select by them,
// remoteAddress and principal. Errors are *limiter.FieldError.
func targetOfQuery(text string) (t target, a plan.Attributes, err error) {
	query, err := url.ParseQuery(text)
	if err != nil {
		return t, a, inField("query", invalid("must be pairs of names and values"))
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if err := readStateParameter(&t, &a, name, query[name]); err != nil {
			return t, a, inField(label([]byte(name)), err)
		}
	}
	return t, a, t.validate()
}

func readStateParameter(t *target, a *plan.Attributes, name string, values []string) (err error) {
	if name != "key" && len(values) > 1 {
		return invalid("is given twice")
	}
	switch name {
	case "policy":
		t.policy = values[0]
	case "key":
		t.key = values
	case "remoteAddress":
		if a.RemoteAddress, err = netip.ParseAddr(values[0]); err != nil {
			return invalid("must be an IPv4 or IPv6 address")
		}
	case "principal":
		a.Principal = values[0]
	default:
		return invalid("is not a known parameter")
	}
	return nil
}

// decodeTarget parses {"policy", "key"} and, for a block, "duration". It overwrites the
// body. Errors are *limiter.FieldError.
func decodeTarget(body []byte, block bool) (t target, err error) {
	if !utf8.Valid(body) {
		return t, invalid("must be UTF-8")
	}
	r := &reader{data: body}
	if r.end() == nil {
		return t, invalid("is empty")
	}
	given := false
	err = r.object(maxMembers, func(name []byte) (err error) {
		switch {
		case string(name) == "policy":
			t.policy, err = r.text()
		case string(name) == "key":
			t.key, err = r.key(nil)
		case string(name) == "duration" && block:
			given = true
			t.duration, err = r.duration()
		default:
			err = unknown()
		}
		return err
	})
	if err == nil {
		err = r.end()
	}
	if err == nil {
		err = t.validate()
	}
	if err == nil && block && !given {
		err = inField("duration", invalid("must be given"))
	}
	return t, err
}

func (r *reader) duration() (time.Duration, error) {
	text, err := r.text()
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, invalid("must be a duration such as 10m or 1h30m")
	}
	return d, nil
}
