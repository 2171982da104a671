// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command fields writes the reference of all fields of a CRD as a page of the documentation: fields CRD PAGE.
package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fields:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a CRD and a page, got %d arguments", len(args))
	}
	text, err := os.ReadFile(args[0]) //nolint:gosec // the path is an argument
	if err != nil {
		return err
	}
	page, err := pageOf(text)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return os.WriteFile(args[1], []byte(page), 0o644) //nolint:gosec // a file of the repository
}

// pageOf returns the page of the CRD.
func pageOf(text []byte) (string, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return "", err
	}
	p := &page{}
	version := crd.Spec.Versions[0]
	p.printf("# Fields of %s\n\n", crd.Spec.Names.Kind)
	p.printf("All fields of `%s/%s`. `make manifests` writes this page from the schema. A field with * is required.\n",
		crd.Spec.Group, version.Name)
	for _, name := range []string{"spec", "status"} {
		root := version.Schema.OpenAPIV3Schema.Properties[name]
		p.object(name, &root)
	}
	return p.text.String(), nil
}

// page is the text of a page.
type page struct{ text strings.Builder }

func (p *page) printf(format string, args ...any) { _, _ = fmt.Fprintf(&p.text, format, args...) }

// object writes the section of an object, and the sections of the objects in it.
func (p *page) object(path string, s *apiextensionsv1.JSONSchemaProps) {
	p.printf("\n## %s\n\n| field | type | |\n|---|---|---|\n", path)
	names := slices.Sorted(maps.Keys(s.Properties))
	for _, name := range names {
		field := s.Properties[name]
		mark := ""
		if slices.Contains(s.Required, name) {
			mark = "*"
		}
		p.printf("| `%s`%s | %s | %s |\n", name, mark, typeOf(path+"."+name, &field), descriptionOf(&field))
	}
	p.rules(s)
	for _, name := range names {
		field := s.Properties[name]
		if inner, innerPath := objectIn(path+"."+name, &field); inner != nil {
			p.object(innerPath, inner)
		}
	}
}

// rules writes the rules between fields.
func (p *page) rules(s *apiextensionsv1.JSONSchemaProps) {
	var rules []string
	for _, rule := range s.XValidations {
		rules = append(rules, "- "+rule.Message+"\n")
	}
	if len(rules) > 0 {
		p.printf("\nRules:\n\n%s", strings.Join(rules, ""))
	}
}

// objectIn returns the object with fields that the field or its items are, and its path; nil for others.
func objectIn(path string, s *apiextensionsv1.JSONSchemaProps) (*apiextensionsv1.JSONSchemaProps, string) {
	if s.Items != nil {
		s, path = s.Items.Schema, path+"[]"
	}
	if len(s.Properties) == 0 {
		return nil, ""
	}
	return s, path
}

// typeOf returns the type of a field with its bounds.
func typeOf(path string, s *apiextensionsv1.JSONSchemaProps) string {
	if inner, innerPath := objectIn(path, s); inner != nil {
		link := fmt.Sprintf("[%s](#%s)", s.Type, anchorOf(innerPath))
		return link + boundsOf("items", s.MinItems, s.MaxItems)
	}
	switch {
	case s.Items != nil:
		return "array of " + typeOf(path, s.Items.Schema) + boundsOf("items", s.MinItems, s.MaxItems)
	case len(s.Enum) > 0:
		values := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			values[i] = "`" + strings.Trim(string(value.Raw), `"`) + "`"
		}
		return strings.Join(values, ", ")
	case s.Type == "string":
		return cmp.Or(s.Format, "string") + boundsOf("characters", s.MinLength, s.MaxLength)
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%s, %.0f to %.0f", s.Type, *s.Minimum, *s.Maximum)
	}
	return s.Type
}

// boundsOf returns the bounds of a length.
func boundsOf(unit string, smallest, largest *int64) string {
	switch {
	case largest == nil:
		return ""
	case smallest == nil:
		return fmt.Sprintf(", up to %d %s", *largest, unit)
	default:
		return fmt.Sprintf(", %d to %d %s", *smallest, *largest, unit)
	}
}

// descriptionOf returns the description of a field, which also names its default, for a cell of a table.
func descriptionOf(s *apiextensionsv1.JSONSchemaProps) string {
	text := strings.Join(strings.Fields(s.Description), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "{{", "&#123;&#123;").Replace(text)
}

// anchorOf returns the anchor of a section, as GitHub makes it.
func anchorOf(title string) string {
	return strings.NewReplacer(".", "", "[", "", "]", "").Replace(strings.ToLower(title))
}
