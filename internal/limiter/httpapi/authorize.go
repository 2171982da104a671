// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
)

// The parameters of pathAuthorize.
const (
	parameterDeny   = "deny"
	parameterPolicy = "policy"
)

// isAuthorize reports whether the path is pathAuthorize or below it. What is
// below it may be the path of the request that is asked about, so it is looked
// at as it was sent.
func isAuthorize(path string) bool {
	rest, ok := strings.CutPrefix(path, pathAuthorize)
	return ok && (rest == "" || rest[0] == '/')
}

// authorize decides the request that a proxy asks about. The body, which
// belongs to that request, is not read.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request) {
	o := h.answerOptions()
	o.BodyOnDenialOnly, o.policiesField = true, parameterPolicy
	check := &limiter.Check{Cost: 1}
	err := readParameters(r.URL, check, &o)
	if err == nil {
		check.Attributes, err = h.forwardedFacts(r)
	}
	if err != nil {
		h.writeCheckError(w, r, check, o, err)
		return
	}
	h.decide(w, r, check, o)
}

// readParameters reads what whoever configured the proxy wants. Below
// pathAuthorize there is none of that: a proxy that appends the path of a
// request appends the query of its client as well, and a client must not choose
// its policies.
func readParameters(u *url.URL, check *limiter.Check, o *answerOptions) (err error) {
	if u.EscapedPath() != pathAuthorize {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return &limiter.FieldError{Field: "query", Problem: "must be pairs of names and values"}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch values := query[name]; name {
		case parameterPolicy:
			check.Policies, err = policyParameters(values)
		case parameterDeny:
			o.DenyStatus, err = denyParameter(values)
		default:
			err = &limiter.FieldError{Field: name, Problem: "is not a known parameter"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func policyParameters(values []string) ([]string, error) {
	if len(values) > limiter.MaxChain {
		return nil, &limiter.FieldError{Field: parameterPolicy, Problem: fmt.Sprintf("must not be given more than %d times", limiter.MaxChain)}
	}
	for i, name := range values {
		if problem := policyNameProblem(name, values[:i]); problem != "" {
			return nil, &limiter.FieldError{Field: fmt.Sprintf("%s[%d]", parameterPolicy, i), Problem: problem}
		}
	}
	return values, nil
}

// denyParameter reads the status of all refusals. nginx knows this one only.
func denyParameter(values []string) (int, error) {
	if !slices.Equal(values, []string{"403"}) {
		return 0, &limiter.FieldError{Field: parameterDeny, Problem: "must be 403, once"}
	}
	return http.StatusForbidden, nil
}
