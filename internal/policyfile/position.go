// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a file, counted from 1. The zero value is unknown.
type Position struct{ Line, Column int }

// document is the text of one document of a file.
type document struct {
	number int // in the file, from 1
	line   int // of the file in which it begins
	text   []byte

	parse sync.Once
	root  *yaml.Node // nil for an empty document
}

// problem returns a problem of the whole document.
func (d *document) problem(text string) Problem {
	return Problem{Position: Position{Line: d.line, Column: 1}, Document: d.number, Text: text}
}

// position returns the position of the field at the path or, if it is not set, of the
// closest field around it. It parses the text on first use.
func (d *document) position(path string) Position {
	d.parse.Do(func() {
		var node yaml.Node
		if err := yaml.Unmarshal(d.text, &node); err == nil && len(node.Content) > 0 {
			d.root = node.Content[0]
		}
	})
	if d.root == nil {
		return Position{Line: d.line, Column: 1}
	}
	closest := Closest(d.root, path)
	return Position{Line: d.line + closest.Line - 1, Column: closest.Column}
}

// Closest returns the name of the field, or the list item, at a path such as "spec.limits[0].window", or the closest one around it;
// the root for none.
func Closest(root *yaml.Node, path string) *yaml.Node {
	closest, node := root, root
	for _, step := range steps(path) {
		at, value := child(node, step)
		if at == nil {
			break
		}
		closest, node = at, value
	}
	return closest
}

// child returns the place of a step, which is a field's name or a list item, and its value.
func child(node *yaml.Node, step string) (at, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	default: // a value has no fields
	}
	return nil, nil
}

// pathStep is a name or an index of a path.
var pathStep = regexp.MustCompile(`\[[^\]]*\]?|[^.\[]+`)

// steps divides a path such as "spec.limits[0].window", "metadata.annotations[a.b/c]" into the
// names and indexes.
func steps(path string) []string {
	found := pathStep.FindAllString(path, -1)
	for i, text := range found {
		found[i] = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	}
	return found
}
