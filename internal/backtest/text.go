// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// A line of the text formats has fields separated by spaces, numbered from 1. A field may be in
// quotes or brackets.

// combined are the fields of the combined log format of Apache and nginx.
var combined = map[Attribute]int{
	AttributeRemoteAddress: 1, AttributePrincipal: 3, AttributeTime: 4, AttributeRequest: 5, AttributeStatus: 6,
	"header.referer": 8, "header.user-agent": 9,
}

// envoy are the fields of Envoy's default format, istio the fields of Istio's.
var (
	envoy = map[Attribute]int{
		AttributeTime: 1, AttributeRequest: 2, AttributeStatus: 3, AttributeRemoteAddress: 9, AttributeHost: 12,
		"header.x-forwarded-for": 9, "header.user-agent": 10, "header.x-request-id": 11,
	}
	istio = map[Attribute]int{
		AttributeTime: 1, AttributeRequest: 2, AttributeStatus: 3, AttributeRemoteAddress: 20, AttributeHost: 15,
		"header.x-forwarded-for": 12, "header.user-agent": 13, "header.x-request-id": 14,
	}
)

// istioFields is the number of fields of Istio's format; Envoy's has fewer.
const istioFields = 20

// textReader reads lines of a text format.
type textReader struct {
	setters []setter // by field number; nil if it is not needed
	fields  []string
	least   int // the largest field number
}

// newTextReader returns a reader of the needed attributes, and which attributes the log has. The
// fields that the user names come before the fields of the format.
func newTextReader(format Format, sample []string, named map[Attribute]string, needed []Attribute) (lineReader, map[Attribute]bool, error) {
	fields := fieldsOf(format, sample)
	for a, name := range named {
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > 999 {
			return nil, nil, fmt.Errorf("--map %s=%s: must be the number of a field, from 1", a, name)
		}
		fields[a] = n
	}
	if named[AttributeRequest] == "" && named[AttributeMethod] != "" && named[AttributePath] != "" {
		delete(fields, AttributeRequest)
	}
	has, r := map[Attribute]bool{}, &textReader{}
	for a := range fields {
		has[a] = true
	}
	if has[AttributeRequest] {
		has[AttributeMethod], has[AttributePath] = true, true
	}
	for _, a := range withRequest(needed) {
		if n := fields[a]; n > 0 {
			r.set(n, setterIn(named, a))
		}
	}
	return r, has, nil
}

// fieldsOf returns a copy of the fields of the format.
func fieldsOf(format Format, sample []string) map[Attribute]int {
	of := combined
	if format == FormatEnvoy {
		of = envoy
		for _, line := range sample {
			if n := len(split(nil, line)); n >= istioFields {
				of = istio
			}
		}
	}
	return maps.Clone(of)
}

// set sets how to use a field, also if several attributes come from it.
func (r *textReader) set(field int, do setter) {
	for len(r.setters) < field {
		r.setters = append(r.setters, nil)
	}
	r.least = max(r.least, field)
	if first := r.setters[field-1]; first != nil {
		second := do
		do = func(e *entry, value string) error { return errors.Join(first(e, value), second(e, value)) }
	}
	r.setters[field-1] = do
}

// read implements lineReader.
func (r *textReader) read(line string, e *entry) error {
	r.fields = split(r.fields[:0], line)
	if len(r.fields) < r.least {
		return fmt.Errorf("has %d fields, not %d", len(r.fields), r.least)
	}
	for i, set := range r.setters {
		if value := r.fields[i]; set != nil && value != "-" && value != "" {
			if err := set(e, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// split appends the fields of the line, without their quotes and brackets.
func split(fields []string, line string) []string {
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return fields
		}
		var field string
		switch line[0] {
		case '"':
			field, line = quoted(line[1:])
		case '[':
			field, line, _ = strings.Cut(line[1:], "]")
		default:
			end := strings.IndexAny(line, " \t")
			if end < 0 {
				end = len(line)
			}
			field, line = line[:end], line[end:]
		}
		fields = append(fields, field)
	}
}

// quoted returns the text before the closing quote, and the rest after it.
func quoted(line string) (text, rest string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			return unescape(line[:i]), line[i+1:]
		case '\\':
			i++
		}
	}
	return unescape(line), ""
}

// unescape replaces \x22 and \" as nginx and Apache write them. Other texts with backslashes stay as they are.
func unescape(text string) string {
	if unescaped, err := strconv.Unquote(`"` + text + `"`); err == nil {
		return unescaped
	}
	return text
}
