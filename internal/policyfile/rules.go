// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"math"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
)

// rules are the CEL rules of one schema and of the schemas within it. They are the programs of the API server, on values
// that cost less: the API server copies all properties of a schema whenever a program reads a field.
//
// They only find out that an object is valid. The validator of the API server judges all others, and the schemas
// that are unusual.
type rules struct {
	schema  common.Schema
	unusual bool
	// own returns the programs of the schema itself, and whether they are unusual. Objects use few of the schemas, and
	// compiling a rule is slow and takes 30 KiB, so the first object with a value for the schema compiles them.
	own        func() (programs []celgo.Program, unusual bool)
	properties map[string]*rules
	items      *rules // of a list
}

// newRules returns the rules of a schema. prepared is the schema for CEL, and declType the type of its values, nil if CEL
// does not see them.
func newRules(s *structuralschema.Structural, prepared common.Schema, declType *apiservercel.DeclType) *rules {
	if declType == nil {
		return nil // as the API server
	}
	r := &rules{schema: prepared, properties: map[string]*rules{}}
	r.unusual = s.XEmbeddedResource || s.AdditionalProperties != nil || s.ValueValidation != nil && len(s.ValueValidation.AllOf) > 0
	r.own = sync.OnceValues(func() ([]celgo.Program, bool) { return compile(s, declType) })
	for name := range s.Properties {
		r.addProperty(s, name, declType)
	}
	if s.Items != nil {
		r.items = newRules(s.Items, prepared.Items(), declType.ElemType)
	}
	return r
}

// compile returns the programs of the rules of the schema itself, and whether they are unusual.
func compile(s *structuralschema.Structural, declType *apiservercel.DeclType) (programs []celgo.Program, unusual bool) {
	if len(s.XValidations) == 0 {
		return nil, false
	}
	compiled, err := cel.Compile(s, declType, celconfig.PerCallLimit,
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.StoredExpressionsEnvLoader())
	unusual = err != nil
	for i := range compiled {
		switch result := &compiled[i]; {
		case result.Error != nil || s.XValidations[i].OptionalOldSelf != nil:
			unusual = true
		case result.Program != nil && !result.UsesOldSelf: // an object in a file has no old one
			programs = append(programs, result.Program)
		}
	}
	return programs, unusual
}

// addProperty adds the rules of a property, if CEL sees it.
func (r *rules) addProperty(s *structuralschema.Structural, name string, declType *apiservercel.DeclType) {
	property := s.Properties[name]
	escaped, ok := apiservercel.Escape(name)
	if !ok {
		r.unusual = true
		return
	}
	field := declType.Fields[escaped]
	if field == nil {
		return
	}
	r.properties[name] = newRules(&property, r.schema.Properties()[name], field.Type)
}

// newResourceRules returns the rules of a resource.
func newResourceRules(s *structuralschema.Structural) *rules {
	r := newRules(s, newRuleSchema(s), model.SchemaDeclType(s, true))
	if len(s.XValidations) > 0 {
		r.unusual = true // the API server adds metadata to the root
	}
	return r
}

// hold reports whether the value is known to satisfy the rules. It reduces the budget of costs, within which the API server
// evaluates the rules of an object. The price of a rule bounds its time, so it needs no context.
func (r *rules) hold(value any, budget *uint64) bool {
	if r == nil || value == nil { // as the API server
		return true
	}
	own, unusual := r.own()
	if r.unusual || unusual {
		return false
	}
	self := map[string]any{cel.ScopedVarName: common.UnstructuredToVal(value, r.schema)}
	for _, program := range own {
		result, details, err := program.Eval(self)
		if err != nil || result != types.True || !spend(details, budget) {
			return false
		}
	}
	return r.holdWithin(value, budget)
}

// holdWithin is hold for the fields or items of the value.
func (r *rules) holdWithin(value any, budget *uint64) bool {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			if !r.items.hold(item, budget) {
				return false
			}
		}
	case map[string]any:
		for name, field := range value {
			if !r.properties[name].hold(field, budget) {
				return false
			}
		}
	}
	return true
}

// spend takes the cost of an evaluation from the budget. It returns false if it is unknown or more than the budget.
func spend(details *celgo.EvalDetails, budget *uint64) bool {
	if details == nil || details.ActualCost() == nil {
		return false
	}
	cost := *details.ActualCost()
	if cost > math.MaxInt64 || cost > *budget {
		return false
	}
	*budget -= cost
	return true
}

// ruleSchema is a schema whose parts are prepared.
type ruleSchema struct {
	common.Schema
	properties map[string]common.Schema
	items      common.Schema
}

func newRuleSchema(s *structuralschema.Structural) common.Schema {
	prepared := &ruleSchema{Schema: &model.Structural{Structural: s}}
	if s.Properties != nil {
		prepared.properties = make(map[string]common.Schema, len(s.Properties))
		for name := range s.Properties {
			property := s.Properties[name]
			prepared.properties[name] = newRuleSchema(&property)
		}
	}
	if s.Items != nil {
		prepared.items = newRuleSchema(s.Items)
	}
	return prepared
}

// Properties implements common.Schema.
func (s *ruleSchema) Properties() map[string]common.Schema { return s.properties }

// Items implements common.Schema.
func (s *ruleSchema) Items() common.Schema { return s.items }
