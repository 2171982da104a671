// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"strings"
)

// Check is the body of POST /v1/explain, as clients write it. The server reads it with a stricter reader.
type Check struct {
	Policies   []string   `json:"policies,omitempty"`
	Key        []string   `json:"key,omitempty"`
	Cost       int64      `json:"cost"`
	Attributes Attributes `json:"attributes"`
}

// Attributes are the facts of a request.
type Attributes struct {
	Method        string              `json:"method,omitempty"`
	Host          string              `json:"host,omitempty"`
	Path          string              `json:"path,omitempty"`
	Principal     string              `json:"principal,omitempty"`
	Headers       map[string][]string `json:"headers,omitempty"`
	RemoteAddress string              `json:"remoteAddress,omitempty"`
	Targets       []string            `json:"targets,omitempty"`
	// Claims are the claims of verified tokens, by the name of the payload and the name of the claim.
	Claims      map[string]map[string]any `json:"claims,omitempty"`
	Domain      string                    `json:"domain,omitempty"`
	Descriptors []Descriptor              `json:"descriptors,omitempty"`
}

// Descriptor is a descriptor of Envoy.
type Descriptor struct {
	Entries []DescriptorEntry `json:"entries"`
}

// DescriptorEntry is one fact of a descriptor.
type DescriptorEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// SetURL sets the host and the path from a URL or a path.
func (a *Attributes) SetURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && !strings.HasPrefix(text, "/") {
		return errors.New("must be a URL such as https://shop.example/login, or a path such as /login")
	}
	a.Host, a.Path = u.Host, u.RequestURI()
	return nil
}

// AddHeader adds a header from a line such as "X-Account: bob". The header Host is the host.
func (a *Attributes) AddHeader(line string) error {
	name, value, found := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch {
	case !found || name == "":
		return errors.New("must be a name, a colon and a value, such as 'X-Account: bob'")
	case strings.EqualFold(name, "host"):
		a.Host = value
		return nil
	case a.Headers == nil:
		a.Headers = map[string][]string{}
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	a.Headers[name] = append(a.Headers[name], value)
	return nil
}

// SetClaims sets the claims from JSON such as {"jwt": {"tenant": "acme"}}. An empty text sets none.
func (a *Attributes) SetClaims(text string) error {
	if text == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&a.Claims); err != nil || d.More() {
		return errors.New(`must be the claims of each payload as JSON, such as {"jwt": {"tenant": "acme"}}`)
	}
	return nil
}

// AddDescriptor adds a descriptor from entries such as "user_id=7,tier=gold", with the quotes of CSV.
func (a *Attributes) AddDescriptor(text string) error {
	entries, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return errors.New("must be entries such as user_id=7,tier=gold")
	}
	var d Descriptor
	for _, entry := range entries {
		key, value, _ := strings.Cut(entry, "=")
		if key == "" {
			return fmt.Errorf("entry %q must be a key, or a key and a value such as user_id=7", entry)
		}
		d.Entries = append(d.Entries, DescriptorEntry{Key: key, Value: value})
	}
	a.Descriptors = append(a.Descriptors, d)
	return nil
}
