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

// Query parameters of pathAuthorize.
const (
	parameterDeny   = "deny"
	parameterPolicy = "policy"
)

// isAuthorize reports whether the escaped path is pathAuthorize or below it. A proxy may
// append the path of the original request.
func isAuthorize(path string) bool {
	rest, ok := strings.CutPrefix(path, pathAuthorize)
	return ok && (rest == "" || rest[0] == '/')
}

// authorize serves /v1/authorize: it decides the original request of a proxy. It does not
// read the body, which belongs to that request.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request) {
	o := h.answerOptions()
	o.BodyOnDenialOnly, o.policiesField = true, parameterPolicy
	check := &limiter.Check{Cost: 1}
	err := readParameters(r.URL, check, &o)
	if err == nil {
		check.Attributes, err = h.originalAttributes(r)
	}
	if err != nil {
		h.writeCheckError(w, r, check, o, err)
		return
	}
	h.decide(w, r, check, o)
}

// readParameters reads the query parameters that the configuration of the proxy sets. It
// reads none below pathAuthorize: a proxy that appends the path of the original request also
// appends its query, and a client must not choose its policies.
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

// denyParameter reads the status of every denial. 403 is the only one that nginx accepts.
func denyParameter(values []string) (int, error) {
	if !slices.Equal(values, []string{"403"}) {
		return 0, &limiter.FieldError{Field: parameterDeny, Problem: "must be 403, once"}
	}
	return http.StatusForbidden, nil
}
