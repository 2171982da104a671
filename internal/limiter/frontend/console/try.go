// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// tryPage is the data of the page that explains a request.
type tryPage struct {
	Method, URL, Headers, RemoteAddress, Principal, Claims, Targets, Domain, Descriptors string

	Problem string
	// Answer is nil before the form is sent.
	Answer *httptypes.Explanation
	// ByName is the number of policies without matches, left out of the near misses.
	ByName int
}

// try serves the page that explains a request. The form uses POST, since headers may be secrets.
func (c *Console) try(v *visit) error {
	page := &tryPage{Method: http.MethodGet}
	if v.r.Method != http.MethodPost {
		return c.render(v, http.StatusOK, "try", "Try a request", page)
	}
	form := v.r.PostForm
	*page = tryPage{
		Method: form.Get("method"), URL: strings.TrimSpace(form.Get("url")), Headers: form.Get("headers"),
		RemoteAddress: strings.TrimSpace(form.Get("remoteAddress")), Principal: form.Get("principal"),
		Claims: strings.TrimSpace(form.Get("claims")), Targets: form.Get("targets"), Domain: form.Get("domain"), Descriptors: form.Get("descriptors"),
	}
	check, err := page.check()
	if err != nil {
		page.Problem = err.Error()
		return c.render(v, http.StatusBadRequest, "try", "Try a request", page)
	}
	answer := &httptypes.Explanation{}
	err = c.post(v.ctx(), v.session, "/v1/explain", check, answer)
	p, isProblem := errors.AsType[*problem](err)
	switch {
	case isProblem && p.Status != http.StatusUnauthorized:
		page.Problem = p.Error()
		return c.render(v, p.Status, "try", "Try a request", page)
	case err != nil:
		return err
	}
	page.Answer, page.ByName = answer, answer.RemoveByName()
	return c.render(v, http.StatusOK, "try", "Try a request", page)
}

// check returns the body of the call.
func (p *tryPage) check() (*httptypes.Check, error) {
	check := &httptypes.Check{Cost: 1}
	in := &check.Attributes
	in.RemoteAddress, in.Principal, in.Domain = p.RemoteAddress, p.Principal, p.Domain
	in.Targets = lines(p.Targets)
	if p.URL+p.Targets+p.Domain+p.Descriptors == "" {
		return nil, errors.New("URL: give the URL of the request, or its path")
	}
	if p.URL != "" {
		if err := in.SetURL(p.URL); err != nil {
			return nil, fmt.Errorf("URL: %w", err)
		}
		in.Method = p.Method
	}
	for _, line := range lines(p.Headers) {
		if err := in.AddHeader(line); err != nil {
			return nil, fmt.Errorf("header lines: each %w", err)
		}
	}
	if err := in.SetClaims(p.Claims); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	for _, line := range lines(p.Descriptors) {
		if err := in.AddDescriptor(line); err != nil {
			return nil, fmt.Errorf("descriptor lines: %w", err)
		}
	}
	return check, nil
}

// lines returns the lines of the text that are not empty.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
