// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/json"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// DefaultNamespace is the usual namespace of a policy that sets none.
const DefaultNamespace = "default"

// File is what one file contains.
type File struct {
	// Policies are the valid ones, with defaults filled in.
	Policies []*Policy
	// KeyGroups are the valid ones.
	KeyGroups []*KeyGroup
	// Exceptions are the valid ones.
	Exceptions []*Exception
	// Namespaces are the core resources of that kind, which grant hosts and domains.
	Namespaces []*Namespace
	// Problems are all reasons for which parts of the file are invalid.
	Problems []Problem

	namespace string // of objects without one
}

// Policy is a policy and its text.
type Policy struct {
	*v1alpha1.RateLimitPolicy
	object
}

// ID returns "<namespace>/<name>".
func (p *Policy) ID() string { return p.Namespace + "/" + p.Name }

// KeyGroup is a key group and its text.
type KeyGroup struct {
	*v1alpha1.RateLimitKeyGroup
	object
}

// Exception is an exception and its text.
type Exception struct {
	*v1alpha1.RateLimitException
	object
}

// PolicyID returns the ID of the policy that the exception names.
func (e *Exception) PolicyID() string { return e.Namespace + "/" + e.Spec.Policy }

// Namespace is a Namespace of the file.
type Namespace struct {
	Name        string
	Annotations map[string]string
	Position    Position
}

// Problem is one reason for which a part of the file is invalid.
type Problem struct {
	Position Position
	// Document is the number of the document in the file, from 1.
	Document int
	// Policy is "<namespace>/<name>" of a policy; empty if it is unknown.
	Policy string
	// Object is the kind with "<namespace>/<name>" of an object that is not a policy, such as
	// "RateLimitKeyGroup shop/gold".
	Object string
	// Field is the path of the field; empty if the problem is not about one.
	Field string
	// Text describes the problem. It begins with the field.
	Text string
	// Suggestion is the field or the value that was probably meant, or empty.
	Suggestion string
}

// Message returns the text for people, with the object and what was probably meant.
func (p *Problem) Message() string {
	text := p.Text
	if p.Suggestion != "" {
		text += "; did you mean " + p.Suggestion + "?"
	}
	if object := cmp.Or(p.Policy, p.Object); object != "" {
		text = object + ": " + text
	}
	return text
}

// Parse reads all documents. Documents of other API groups are skipped. An object without a namespace
// gets the given one.
func Parse(ctx context.Context, data []byte, namespace string) *File {
	f := &File{namespace: namespace}
	if at, problem := notText(data); problem != "" {
		f.Problems = []Problem{{Position: at, Document: 1, Text: problem}}
		return f
	}
	documents := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	line := 1
	for number := 1; ; number++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return f
		}
		d := &document{number: number, line: line, text: text}
		if err != nil {
			f.add(d.problem(err.Error()))
			return f
		}
		f.readDocument(ctx, d)
		line += bytes.Count(text, []byte("\n")) + 1 // and the separator
	}
}

// notText returns the position of the first byte that no text contains, and what is wrong.
func notText(data []byte) (at Position, problem string) {
	valid, _, binary := bytes.Cut(data, []byte{0})
	if binary {
		problem = "not a text file: contains a zero byte"
	}
	if !utf8.Valid(valid) {
		problem = "not a text file in UTF-8"
		valid = valid[:bytes.IndexRune(valid, utf8.RuneError)]
	}
	if problem == "" {
		return Position{}, ""
	}
	lines := bytes.Split(valid, []byte("\n"))
	return Position{Line: len(lines), Column: utf8.RuneCount(lines[len(lines)-1]) + 1}, problem
}

func (f *File) add(problems ...Problem) { f.Problems = append(f.Problems, problems...) }

func (f *File) readDocument(ctx context.Context, d *document) {
	content, problems := d.content()
	f.add(problems...)
	if len(content) > 0 { // else only comments
		f.readObject(ctx, object{document: d, content: content})
	}
}

// content returns the fields of the document, as kubectl reads them.
func (d *document) content() (map[string]any, []Problem) {
	encoded, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, d.syntaxProblems(err)
	}
	var content map[string]any
	if err := json.Unmarshal(encoded, &content); err != nil { // keeps integers exact
		return nil, []Problem{d.problem("must be an object")}
	}
	return content, nil
}

// lineOfError is how the YAML library names a line of the document.
var lineOfError = regexp.MustCompile(`line (\d+): `)

// syntaxProblems returns the problems in an error of the YAML library.
func (d *document) syntaxProblems(err error) (problems []Problem) {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "yaml: unmarshal errors:\n"), "\n") {
		p := d.problem(strings.TrimSpace(strings.TrimPrefix(part, "yaml: ")))
		if line := lineOfError.FindStringSubmatch(part); line != nil {
			number, _ := strconv.Atoi(line[1])
			p.Position = Position{Line: d.line + number - 1, Column: 1}
			p.Text = strings.Replace(p.Text, line[0], "", 1)
		}
		problems = append(problems, p)
	}
	return problems
}
