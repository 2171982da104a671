// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"regexp"
	"unicode/utf8"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// form is what a schema demands of a value without CEL rules: its type, bounds and known fields. It checks as the validators of the
// API server do, which build an object for each check of each value.
//
// It only finds out that a value is valid. The validators of the API server judge all others, and the schemas that are unusual.
type form struct {
	structuralschema.ValueValidation
	kind       string // as in OpenAPI, such as "object"
	unusual    bool
	anyFields  bool // of an object
	properties map[string]*form
	items      *form // of a list, or the values of a map
	pattern    *regexp.Regexp
	enum       map[string]bool // nil allows each string
	distinct   bool            // of a list: the items differ, or their keys if it has any
	keys       []string
}

// newResourceForm returns the form of a resource. It ignores the metadata.
func newResourceForm(s *structuralschema.Structural) *form {
	f := newForm(s)
	f.properties["metadata"] = &form{kind: "object", anyFields: true}
	return f
}

func newForm(s *structuralschema.Structural) *form {
	f := &form{kind: s.Type, properties: make(map[string]*form, len(s.Properties)), keys: s.XListMapKeys}
	f.unusual = s.XPreserveUnknownFields || s.XEmbeddedResource || s.XIntOrString
	f.distinct = s.XListType != nil && *s.XListType != "atomic"
	if s.ValueValidation != nil {
		f.addBounds(s.ValueValidation)
	}
	for name := range s.Properties {
		property := s.Properties[name]
		f.properties[name] = newForm(&property)
	}
	switch values := s.AdditionalProperties; {
	case s.Items != nil:
		f.items = newForm(s.Items)
	case values != nil && values.Structural != nil:
		f.items = newForm(values.Structural)
	case values != nil:
		f.unusual = true
	}
	return f
}

func (f *form) addBounds(v *structuralschema.ValueValidation) {
	f.ValueValidation = *v
	f.unusual = f.unusual || hasUnusualBounds(v) || len(v.Enum) > 0 && f.kind != "string"
	if v.Pattern != "" {
		var err error
		f.pattern, err = regexp.Compile(v.Pattern)
		f.unusual = f.unusual || err != nil
	}
	for _, allowed := range v.Enum {
		text, ok := allowed.Object.(string)
		if !ok {
			f.unusual = true
			return
		}
		if f.enum == nil {
			f.enum = make(map[string]bool, len(v.Enum))
		}
		f.enum[text] = true
	}
}

// hasUnusualBounds reports whether there are bounds that fits does not check.
func hasUnusualBounds(v *structuralschema.ValueValidation) bool {
	return len(v.AllOf)+len(v.AnyOf)+len(v.OneOf) > 0 || v.Not != nil || v.UniqueItems || v.MultipleOf != nil ||
		v.ExclusiveMaximum || v.ExclusiveMinimum
}

// fits reports whether the value, with defaults filled in, is known to have the form.
func (f *form) fits(value any) bool {
	if f.unusual {
		return false
	}
	switch value := value.(type) {
	case string:
		return f.kind == "string" && f.fitsText(value)
	case int64:
		return f.kind == "integer" && f.fitsInteger(value)
	case bool:
		return f.kind == "boolean"
	case []any:
		return f.kind == "array" && f.fitsList(value)
	case map[string]any:
		return f.kind == "object" && f.fitsObject(value)
	}
	return false
}

func (f *form) fitsText(value string) bool {
	if f.enum != nil && !f.enum[value] || f.pattern != nil && !f.pattern.MatchString(value) {
		return false
	}
	if f.Format != "" && !strfmt.Default.Validates(f.Format, value) {
		return false
	}
	if f.MinLength == nil && f.MaxLength == nil {
		return true
	}
	return within(utf8.RuneCountInString(value), f.MinLength, f.MaxLength)
}

func (f *form) fitsInteger(value int64) bool {
	const exact = 1 << 53 // the largest integers that a float64 holds
	switch f.Format {
	case "", "int64":
	case "int32":
		if int64(int32(value)) != value { //nolint:gosec // the conversion is the check
			return false
		}
	default:
		return false
	}
	if value > exact || value < -exact {
		return false
	}
	number := float64(value)
	return (f.Minimum == nil || number >= *f.Minimum) && (f.Maximum == nil || number <= *f.Maximum)
}

func (f *form) fitsList(items []any) bool {
	if f.items == nil || !within(len(items), f.MinItems, f.MaxItems) {
		return false
	}
	for _, item := range items {
		if !f.items.fits(item) {
			return false
		}
	}
	return !f.distinct || len(items) < 2 || f.areDistinct(items)
}

// areDistinct reports whether the items, or their keys, are known to differ.
func (f *form) areDistinct(items []any) bool {
	seen := make(map[any]bool, len(items))
	for _, item := range items {
		key, ok := f.keyOf(item)
		if !ok || seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// keyOf returns what must differ between the items of a list. It returns false for a key that is not scalar.
func (f *form) keyOf(item any) (key any, ok bool) {
	if len(f.keys) == 0 {
		return scalar(item)
	}
	fields, _ := item.(map[string]any)
	for _, name := range f.keys {
		part, ok := scalar(fields[name])
		if !ok {
			return nil, false
		}
		key = [2]any{key, part}
	}
	return key, true
}

// scalar returns the value if it is a string, an integer or a boolean.
func scalar(value any) (any, bool) {
	switch value.(type) {
	case string, int64, bool:
		return value, true
	}
	return nil, false
}

func (f *form) fitsObject(fields map[string]any) bool {
	if !within(len(fields), f.MinProperties, f.MaxProperties) {
		return false
	}
	for _, name := range f.Required {
		if _, ok := fields[name]; !ok {
			return false
		}
	}
	if f.anyFields {
		return true
	}
	for name, value := range fields {
		of, known := f.properties[name]
		if !known {
			of = f.items
		}
		if of == nil || !of.fits(value) {
			return false
		}
	}
	return true
}

// within reports whether n is within bounds, of which nil is none.
func within(n int, least, most *int64) bool {
	return (least == nil || int64(n) >= *least) && (most == nil || int64(n) <= *most)
}
