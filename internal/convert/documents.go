// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"

	"github.com/weir-dev/weir/internal/policyfile"
)

// File is a file with configurations of a rate limit service.
type File struct {
	// Name is shown in notes and errors; empty for none.
	Name string
	Data []byte
}

// configuration is one configuration of a rate limit service: a document of a file, a file in a ConfigMap, or a part of
// another object of Kubernetes.
type configuration struct {
	root *yamlv3.Node
	file string // for notes and errors; may be empty
	// within names the part of an object of Kubernetes, as "ConfigMap shop/limits, limits.yaml"; empty for a document.
	within string
	before int // lines of the file before the text of the root
}

// place returns the path with the file, the line and the object that it is in.
func (c *configuration) place(path string) string {
	place := ""
	if c.file != "" {
		place = c.file + ":" + strconv.Itoa(c.before+policyfile.Closest(c.root, path).Line) + ": "
	}
	if c.within != "" {
		place += c.within + ": "
	}
	return place + path
}

// problem returns the errors with their places, nil for none.
func (c *configuration) problem(errs ...error) error {
	var placed []error
	for _, err := range errs {
		if err != nil {
			path, _, _ := strings.Cut(err.Error(), ": ")
			if field, isUnknown := strings.CutPrefix(path, `unknown field "`); isUnknown {
				path = strings.TrimSuffix(field, `"`)
			}
			placed = append(placed, fmt.Errorf("%s%w", strings.TrimSuffix(c.place(path), path), err))
		}
	}
	return errors.Join(placed...)
}

// member returns the value of the field, nil without one.
func member(node *yamlv3.Node, name string) *yamlv3.Node {
	for i := 0; node != nil && node.Kind == yamlv3.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

func textOf(node *yamlv3.Node, name string) string {
	if value := member(node, name); value != nil && value.Kind == yamlv3.ScalarNode {
		return value.Value
	}
	return ""
}

// service describes the configurations of a rate limit service.
type service struct {
	name string // of a configuration, as "a limits file of Limitador"
	// isConfiguration reports whether the text of a ConfigMap or a document is one.
	isConfiguration func(root *yamlv3.Node) bool
	// kind and part are an object of Kubernetes and the path of the configuration in it; empty for none.
	kind string
	part []string
}

// read returns all configurations of the files. skipped is called for objects of Kubernetes and files in ConfigMaps that have none.
func (s *service) read(files []File, skipped func(c *configuration, what string)) (found []*configuration, err error) {
	for _, file := range files {
		documents := yamlv3.NewDecoder(bytes.NewReader(file.Data))
		for {
			var document yamlv3.Node
			err := documents.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%snot %s: %w", prefixOf(file.Name), s.name, plain(err))
			}
			more, err := s.readObject(&configuration{root: document.Content[0], file: file.Name}, skipped)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

func prefixOf(file string) string {
	if file == "" {
		return ""
	}
	return file + ": "
}

// readObject returns the configurations of a document, or of an item of a list in it.
func (s *service) readObject(c *configuration, skipped func(*configuration, string)) (found []*configuration, err error) {
	kind, metadata := textOf(c.root, "kind"), member(c.root, "metadata")
	object := kind + " " + strings.TrimPrefix(textOf(metadata, "namespace")+"/"+textOf(metadata, "name"), "/")
	switch items := member(c.root, "items"); {
	case c.root.ShortTag() == "!!null":
		return nil, nil // only comments
	case textOf(c.root, "apiVersion") == "" || kind == "":
		return []*configuration{c}, nil
	case items != nil:
		for _, item := range items.Content {
			more, err := s.readObject(&configuration{root: item, file: c.file, before: c.before}, skipped)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
		return found, nil
	case kind == "ConfigMap":
		return s.readConfigMap(c, object, skipped)
	case kind == s.kind:
		part := c.root
		for _, name := range s.part {
			part = member(part, name)
		}
		if part != nil {
			return []*configuration{{root: part, file: c.file, before: c.before, within: object + ", " + strings.Join(s.part, ".")}}, nil
		}
	}
	skipped(c, object)
	return nil, nil
}

// readConfigMap returns the files of the ConfigMap that are configurations.
func (s *service) readConfigMap(c *configuration, object string, skipped func(*configuration, string)) (found []*configuration, err error) {
	data := member(c.root, "data")
	for i := 0; data != nil && i+1 < len(data.Content); i += 2 {
		name, text := data.Content[i].Value, data.Content[i+1]
		before := c.before + text.Line
		if text.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle) == 0 {
			before-- // it begins in its own line
		}
		documents := yamlv3.NewDecoder(strings.NewReader(text.Value))
		for {
			var document yamlv3.Node
			if err := documents.Decode(&document); err != nil || !s.isConfiguration(document.Content[0]) {
				if !errors.Is(err, io.EOF) {
					skipped(&configuration{root: text, file: c.file, before: c.before}, object+", "+name)
				}
				break
			}
			found = append(found, &configuration{root: document.Content[0], file: c.file, before: before, within: object + ", " + name})
		}
	}
	return found, nil
}

// decode decodes the configuration into the value. The problems are unknown fields.
func (s *service) decode(c *configuration, into any) (problems []error, err error) {
	var value any
	if err = c.root.Decode(&value); err == nil {
		var text []byte
		if text, err = json.Marshal(value); err == nil {
			problems, err = strictjson.UnmarshalStrict(text, into)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("not %s: %w", s.name, plain(err))
	}
	return problems, nil
}

// plain returns the error of a library in the words of people who write the file.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New(prefixOf(wrong.Field) + "must not be " + article(wrong.Value))
	}
	if _, ok := errors.AsType[*json.UnsupportedTypeError](err); ok {
		return errors.New("the name of a field must be a text")
	}
	return errors.New(strings.TrimPrefix(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ", ""), "json: "))
}

// article returns the kind of a JSON value with its article, as "a number 1.5" or "an object".
func article(kind string) string {
	if strings.HasPrefix(kind, "array") || strings.HasPrefix(kind, "object") {
		return "an " + kind
	}
	return "a " + kind
}
