// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/internal/duration"
)

// resourceSchema validates objects with the code of the API server and the CRD, so
// that the errors are as from kubectl apply and no bound is written twice.
type resourceSchema struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *rules
	// judge returns what judges objects that rules do not find valid. It compiles the rules again, which is slow.
	judge func() *cel.Validator
}

// durationPattern is the pattern of type Duration in the CRD.
const durationPattern = "^([0-9]{1,5}(h|m|s|ms)){1,4}$"

// schemas builds the schema of each kind at most once, since compiling its CEL rules is slow.
var schemas = sync.OnceValues(func() (map[string]func() (*resourceSchema, error), error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	byKind := make(map[string]func() (*resourceSchema, error), len(definitions))
	for _, definition := range definitions {
		byKind[definition.Spec.Names.Kind] = sync.OnceValues(func() (*resourceSchema, error) { return newSchema(definition) })
	}
	return byKind, nil
})

// schemaOf returns the schema of the kind.
func schemaOf(kind string) (*resourceSchema, error) {
	byKind, err := schemas()
	if err != nil {
		return nil, err
	}
	return byKind[kind]()
}

func newSchema(definition *apiextensionsv1.CustomResourceDefinition) (*resourceSchema, error) {
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, fmt.Errorf("convert the embedded CRD: %w", err)
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the embedded CRD: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the embedded CRD: %w", err)
	}
	return &resourceSchema{
		structural: structural,
		validator:  validator,
		rules:      newResourceRules(structural),
		judge: sync.OnceValue(func() *cel.Validator {
			return cel.NewValidator(structural, true, celconfig.PerCallLimit)
		}),
	}, nil
}

// validate fills in the defaults of the schema and returns all its errors.
func (s *resourceSchema) validate(ctx context.Context, object map[string]any) field.ErrorList {
	if errs := s.formErrors(object); len(errs) > 0 {
		s.hintAtDurations(errs)
		return errs // CEL rules report confusing errors for objects of a wrong form
	}
	budget := uint64(celconfig.RuntimeCELCostBudget)
	if s.rules.hold(object, &budget) {
		return nil
	}
	errs, _ := s.judge().Validate(ctx, nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return errs
}

// formErrors removes unknown fields, fills in the defaults of the schema and returns all errors but of its rules.
func (s *resourceSchema) formErrors(object map[string]any) (errs field.ErrorList) {
	unknown := pruning.PruneWithOptions(object, s.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: unknownField})
	}
	errs = append(errs, unknownMetadata(object)...)
	defaulting.Default(object, s.structural)
	errs = append(errs, validateName(object)...)
	errs = append(errs, withoutNameless(validation.ValidateCustomResource(nil, object, s.validator))...)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
}

// withoutNameless returns the errors without those that name no field, of which the validator has one beside the error
// of a number with a fraction.
func withoutNameless(errs field.ErrorList) field.ErrorList {
	isNameless := func(err *field.Error) bool { return err.Field == "<nil>" }
	if !slices.ContainsFunc(errs, func(err *field.Error) bool { return !isNameless(err) }) {
		return errs
	}
	return slices.DeleteFunc(errs, isNameless)
}

// hintAtDurations gives durations with days, weeks or fractions a message like their CEL rule has.
func (s *resourceSchema) hintAtDurations(errs field.ErrorList) {
	for _, err := range errs {
		text, _ := err.BadValue.(string)
		at := s.find(steps(err.Field))
		if hint := duration.Hint(text); hint != "" && at != nil && at.ValueValidation != nil && at.ValueValidation.Pattern == durationPattern {
			err.Detail = hint
		}
	}
}

// unknownMetadata returns an error for each field of the metadata that does not exist.
func unknownMetadata(object map[string]any) (errs field.ErrorList) {
	_, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), field.OmitValueType{}, err.Error())}
	}
	for _, path := range unknown {
		errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: unknownField})
	}
	return errs
}

func validateName(object map[string]any) field.ErrorList {
	metadata, _ := object["metadata"].(map[string]any)
	at := field.NewPath("metadata")
	var errs field.ErrorList
	for _, part := range []struct {
		name  string
		valid apimachineryvalidation.ValidateNameFunc
	}{
		{"name", apimachineryvalidation.NameIsDNSSubdomain},
		{"namespace", apimachineryvalidation.ValidateNamespaceName},
	} {
		value, _ := metadata[part.name].(string)
		for _, problem := range part.valid(value, false) {
			errs = append(errs, field.Invalid(at.Child(part.name), value, problem))
		}
	}
	return errs
}
