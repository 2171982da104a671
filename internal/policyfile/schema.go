// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/weir-dev/weir/config/crd"
)

// resourceSchema judges objects as an API server that has the CRD installed does, with
// the API server's own code: what `kubectl apply` refuses is refused here with
// the same words, and no bound is written down twice.
type resourceSchema struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// theSchema is built once: compiling its CEL rules takes a while.
var theSchema = sync.OnceValues(newSchema)

func newSchema() (*resourceSchema, error) {
	definition, err := crd.RateLimitPolicies()
	if err != nil {
		return nil, err
	}
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
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// admit fills the defaults of the schema in and returns everything the schema
// has against the object.
func (s *resourceSchema) admit(ctx context.Context, object map[string]any) field.ErrorList {
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(object, s.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field"})
	}
	defaulting.Default(object, s.structural)
	errs = append(errs, validateName(object)...)
	errs = append(errs, validation.ValidateCustomResource(nil, object, s.validator)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if len(errs) > 0 {
		return errs // rules may fail in confusing ways on objects of a wrong form
	}
	errs, _ = s.rules.Validate(ctx, nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
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
