// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"maps"
	"slices"
	"strconv"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/internal/spelling"
)

// unknownField is the detail of an error about a field that the schema does not have.
const unknownField = "unknown field"

// metadataFields are those that authors write.
var metadataFields = []string{"annotations", "finalizers", "labels", "name", "namespace", "ownerReferences"}

// suggestion returns the field or the value that was probably meant, or "".
func (s *resourceSchema) suggestion(err *field.Error) string {
	path := steps(err.Field)
	switch {
	case len(path) == 0:
		return ""
	case err.Detail == unknownField:
		return spelling.Closest(path[len(path)-1], s.fieldsOf(path[:len(path)-1]))
	case err.Type == field.ErrorTypeNotSupported:
		value, _ := err.BadValue.(string)
		return spelling.Closest(value, s.valuesOf(path))
	}
	return ""
}

// fieldsOf returns the names of the fields at the path.
func (s *resourceSchema) fieldsOf(path []string) []string {
	if len(path) == 1 && path[0] == "metadata" {
		return metadataFields
	}
	if at := s.find(path); at != nil {
		return slices.Sorted(maps.Keys(at.Properties))
	}
	return nil
}

// valuesOf returns the values that the enum at the path allows.
func (s *resourceSchema) valuesOf(path []string) (values []string) {
	at := s.find(path)
	if at == nil || at.ValueValidation == nil {
		return nil
	}
	for _, allowed := range at.ValueValidation.Enum {
		if text, ok := allowed.Object.(string); ok {
			values = append(values, text)
		}
	}
	return values
}

// find returns the schema at the path, or nil.
func (s *resourceSchema) find(path []string) *structuralschema.Structural {
	at := s.structural
	for _, step := range path {
		if _, err := strconv.Atoi(step); err == nil && at.Items != nil {
			at = at.Items
			continue
		}
		property, found := at.Properties[step]
		if !found {
			return nil
		}
		at = &property
	}
	return at
}
