// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Query parameters of pathAuthorize.
const (
	parameterDeny   = "deny"
	parameterPolicy = "policy"
	parameterTarget = "target"
)

// belowAuthorize returns the escaped path below pathAuthorize, where a proxy may append the path
// of the original request. ok is false for other paths.
func belowAuthorize(u *url.URL) (path string, ok bool) {
	whole := u.Path
	if u.RawPath != "" || len(whole) > len(pathAuthorize) { // else escaping cannot make it equal
		whole = u.EscapedPath()
	}
	path, ok = strings.CutPrefix(whole, pathAuthorize)
	return path, ok && (path == "" || path[0] == '/')
}

// authorize serves /v1/authorize: it decides the original request of a proxy. It does not
// read the body, which belongs to that request.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request) {
	o := h.answerOptions()
	o.BodyOnDenialOnly, o.ForClients, o.policiesField = true, true, parameterPolicy
	q := newRequest()
	path, _ := belowAuthorize(r.URL)
	var err error
	if path == "" {
		err = q.readParameters(r.URL.RawQuery, &o)
	}
	if err == nil {
		err = h.readOriginal(r, path, q)
	}
	if err == nil {
		err = clientQueryError(r.URL.RawQuery, q.check.Attributes.Path)
	}
	if h.answerProbe(w, r, q, err) {
		q.release()
		return
	}
	if err != nil {
		h.writeCheckError(w, r, q, o, err)
		q.release()
		return
	}
	h.answerCheck(w, r, q, o)
}

// clientQueryError returns an error if the query of the call is the one of the original request: some proxies, such as
// Caddy with a uri that has no "?", pass it on, and a client could then name policies and targets.
func clientQueryError(query, originalPath string) error {
	if _, original, _ := strings.Cut(originalPath, "?"); query != "" && query == original {
		return &limiter.FieldError{Field: "query", Problem: "is the query of the client: the proxy must not pass it on"}
	}
	return nil
}

// readParameters reads the query parameters that the configuration of the proxy sets. It must
// not be called below pathAuthorize: a proxy that appends the path of the original request also
// appends its query, and a client must not choose its policies.
func (q *request) readParameters(text string, o *answerOptions) error {
	if name, value, ok := singleParameter(text); ok {
		err := q.setParameter(name, append(q.policies[:0], value), o)
		if err != nil {
			err = inField(label([]byte(name)), err)
		}
		return err
	}
	return readQuery(text, func(name string, values []string) error { return q.setParameter(name, values, o) })
}

// singleParameter returns the parameter of a query that has one, without escapes. Most have, and
// url.ParseQuery would allocate a map.
func singleParameter(query string) (name, value string, ok bool) {
	if query == "" || strings.ContainsAny(query, "&;%+") {
		return "", "", false
	}
	name, value, _ = strings.Cut(query, "=")
	return name, value, true
}

func (q *request) setParameter(name string, values []string, o *answerOptions) (err error) {
	switch name {
	case parameterPolicy:
		q.check.Policies, err = policyParameters(values)
	case parameterTarget:
		q.check.Attributes.Targets, err = targetParameters(values)
	case parameterDeny:
		o.DenyStatus, err = denyParameter(values)
	default:
		err = invalid("is not a known parameter")
	}
	return err
}

func policyParameters(values []string) ([]string, error) {
	if len(values) > limiter.MaxChain {
		return nil, invalid(fmt.Sprintf("must not be given more than %d times", limiter.MaxChain))
	}
	for i, name := range values {
		if problem := policyNameProblem(name, values[:i]); problem != "" {
			return nil, inField(fmt.Sprintf("[%d]", i), invalid(problem))
		}
	}
	return values, nil
}

func targetParameters(values []string) ([]plan.Target, error) {
	if len(values) > plan.MaxTargets {
		return nil, invalid(fmt.Sprintf("must not be given more than %d times", plan.MaxTargets))
	}
	targets := make([]plan.Target, len(values))
	for i, value := range values {
		t, err := plan.ParseTarget(value)
		if err != nil {
			return nil, inField(fmt.Sprintf("[%d]", i), invalid(err.Error()))
		}
		targets[i] = t
	}
	return targets, nil
}

// denyParameter reads the status of every denial. 403 is the only one that nginx accepts.
func denyParameter(values []string) (int, error) {
	if !slices.Equal(values, []string{"403"}) {
		return 0, invalid("must be 403, once")
	}
	return http.StatusForbidden, nil
}
