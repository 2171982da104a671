// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/csv"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// tryPage is the data of the page that explains a request.
type tryPage struct {
	Method, URL, Headers, RemoteAddress, Principal, Domain, Descriptors string

	Problem string
	// Answer is nil before the form is sent.
	Answer *explainAnswer
}

// explainedCheck is the body of POST /v1/explain.
type explainedCheck struct {
	Cost       int64              `json:"cost"`
	Attributes explainedAttribute `json:"attributes"`
}

type explainedAttribute struct {
	Method        string              `json:"method,omitempty"`
	Host          string              `json:"host,omitempty"`
	Path          string              `json:"path,omitempty"`
	Principal     string              `json:"principal,omitempty"`
	Headers       map[string][]string `json:"headers,omitempty"`
	RemoteAddress string              `json:"remoteAddress,omitempty"`
	Domain        string              `json:"domain,omitempty"`
	Descriptors   []descriptor        `json:"descriptors,omitempty"`
}

type descriptor struct {
	Entries []descriptorEntry `json:"entries"`
}

type descriptorEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// try serves the page that explains a request. The form uses POST, since headers may be secrets.
func (c *Console) try(v *visit) {
	page := &tryPage{Method: http.MethodGet}
	if v.r.Method != http.MethodPost {
		c.render(v, http.StatusOK, "try", "Try a request", page)
		return
	}
	form := v.r.PostForm
	*page = tryPage{
		Method: form.Get("method"), URL: strings.TrimSpace(form.Get("url")), Headers: form.Get("headers"),
		RemoteAddress: strings.TrimSpace(form.Get("remoteAddress")), Principal: form.Get("principal"),
		Domain: form.Get("domain"), Descriptors: form.Get("descriptors"),
	}
	check, err := page.check()
	if err != nil {
		page.Problem = err.Error()
		c.render(v, http.StatusBadRequest, "try", "Try a request", page)
		return
	}
	answer := &explainAnswer{}
	err = c.post(v.ctx(), v.session, "/v1/explain", check, answer)
	p, isProblem := errors.AsType[*problem](err)
	switch {
	case isProblem && p.Status != http.StatusUnauthorized:
		page.Problem = p.Error()
		c.render(v, p.Status, "try", "Try a request", page)
	case err != nil:
		c.failWith(v, err)
	default:
		page.Answer = answer
		c.render(v, http.StatusOK, "try", "Try a request", page)
	}
}

// check returns the body of the call.
func (p *tryPage) check() (*explainedCheck, error) {
	check := &explainedCheck{Cost: 1}
	in := &check.Attributes
	in.RemoteAddress, in.Principal, in.Domain = p.RemoteAddress, p.Principal, p.Domain
	if p.URL == "" && p.Domain == "" && p.Descriptors == "" {
		return nil, errors.New("URL: give that of the request, or its path")
	}
	if p.URL != "" {
		u, err := url.Parse(p.URL)
		if err != nil || u.Host == "" && !strings.HasPrefix(p.URL, "/") {
			return nil, errors.New("URL: must be a URL such as https://shop.example/login, or a path such as /login")
		}
		in.Method, in.Host, in.Path = p.Method, u.Host, u.RequestURI()
	}
	if err := in.setHeaders(p.Headers); err != nil {
		return nil, err
	}
	return check, in.setDescriptors(p.Descriptors)
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

// setHeaders sets the headers from lines such as "X-Account: bob". The header Host is the host.
func (in *explainedAttribute) setHeaders(text string) error {
	for _, line := range lines(text) {
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !found || name == "":
			return errors.New("header lines: each must be a name, a colon and a value, such as X-Account: bob")
		case strings.EqualFold(name, "host"):
			in.Host = value
			continue
		case in.Headers == nil:
			in.Headers = map[string][]string{}
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		in.Headers[name] = append(in.Headers[name], value)
	}
	return nil
}

// setDescriptors sets the descriptors from lines such as "user_id=7,tier=gold", with the quotes of CSV.
func (in *explainedAttribute) setDescriptors(text string) error {
	for _, line := range lines(text) {
		entries, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil {
			return errors.New("descriptor lines: each must have entries such as user_id=7,tier=gold")
		}
		var d descriptor
		for _, entry := range entries {
			key, value, _ := strings.Cut(entry, "=")
			if key == "" {
				return errors.New("descriptor lines: each entry must have a key, as in user_id=7")
			}
			d.Entries = append(d.Entries, descriptorEntry{Key: key, Value: value})
		}
		in.Descriptors = append(in.Descriptors, d)
	}
	return nil
}
