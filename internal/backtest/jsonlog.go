// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// jsonFields are the fields in which common servers log each attribute: nginx and Envoy by their
// usual formats, Traefik and Caddy. A dot leads into an object.
var jsonFields = map[Attribute][]string{
	AttributeTime:          {"time", "timestamp", "@timestamp", "ts", "time_iso8601", "start_time", "StartUTC", "msec"},
	AttributeStatus:        {"status", "response_code", "DownstreamStatus"},
	AttributeMethod:        {"method", "request_method", "RequestMethod", "request.method"},
	AttributeHost:          {"host", "authority", ":authority", "http_host", "RequestHost", "request.host", "server_name"},
	AttributePath:          {"path", "uri", "request_uri", "RequestPath", "request.uri", "url"},
	AttributeRemoteAddress: {"remote_addr", "remote_address", "client_ip", "ClientHost", "downstream_remote_address", "request.client_ip", "request.remote_ip"},
	AttributePrincipal:     {"remote_user", "principal", "ClientUsername"},
	AttributeRequest:       {"request"},
	"header.user-agent":    {"user_agent", "http_user_agent", "request_User-Agent"},
	"header.referer":       {"referer", "http_referer", "request_Referer"},
}

// jsonReader reads lines with one JSON object each.
type jsonReader struct{ fields []jsonField }

type jsonField struct {
	path []string
	set  setter
}

// newJSONReader returns a reader of the needed attributes, and which attributes the log has: those
// with a field in one of the sample lines.
func newJSONReader(sample []string, named map[Attribute]string, needed []Attribute) (lineReader, map[Attribute]bool, error) {
	objects := make([]map[string]any, 0, len(sample))
	for _, line := range sample {
		if object, err := decode(line); err == nil {
			objects = append(objects, object)
		}
	}
	r, has := &jsonReader{}, map[Attribute]bool{}
	for _, a := range withRequest(needed) {
		candidates := candidatesOf(a)
		if named[a] != "" {
			candidates = []string{named[a]}
		}
		if path := findField(objects, candidates, a == AttributeRequest); path != nil {
			has[a] = true
			r.fields = append(r.fields, jsonField{path: path, set: setterIn(named, a)})
		} else if named[a] != "" {
			return nil, nil, fmt.Errorf("--map %s=%s: no field of that name in the first %d lines", a, named[a], len(sample))
		}
	}
	if has[AttributeRequest] {
		has[AttributeMethod], has[AttributePath] = true, true
	}
	return r, has, nil
}

// candidatesOf returns the fields that may hold the attribute. Headers are logged by their name, or
// as nginx names them.
func candidatesOf(a Attribute) []string {
	candidates := slices.Clone(jsonFields[a])
	if name, ok := strings.CutPrefix(string(a), headerPrefix); ok && name != "" {
		under := strings.ReplaceAll(name, "-", "_")
		candidates = append(candidates, name, under, "http_"+under, "headers."+name)
	}
	return candidates
}

// findField returns the first candidate that one of the objects has, as a path. Where text is
// set, it must hold text, not an object.
func findField(objects []map[string]any, candidates []string, text bool) []string {
	for _, candidate := range candidates {
		for _, path := range [][]string{{candidate}, strings.Split(candidate, ".")} {
			for _, object := range objects {
				value, found := lookup(object, path)
				if _, isText := value.(string); found && (isText || !text) {
					return path
				}
			}
		}
	}
	return nil
}

func decode(line string) (object map[string]any, err error) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	return object, nil
}

func lookup(object map[string]any, path []string) (value any, found bool) {
	for _, name := range path[:len(path)-1] {
		if object, found = object[name].(map[string]any); !found {
			return nil, false
		}
	}
	value, found = object[path[len(path)-1]]
	return value, found && value != nil
}

// read implements lineReader.
func (r *jsonReader) read(line string, e *entry) error {
	object, err := decode(line)
	if err != nil {
		return err
	}
	for i := range r.fields {
		f := &r.fields[i]
		value, found := lookup(object, f.path)
		if !found {
			continue
		}
		if text := textOf(value); text != "" && text != "-" {
			if err := f.set(e, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// textOf returns the text of a value; of a list, as Caddy logs headers, the text of its first item.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case []any:
		if len(v) > 0 {
			return textOf(v[0])
		}
		return ""
	default:
		return fmt.Sprint(v)
	}
}
