// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

const (
	// maxResults bounds the results that a rule remembers, so that all rules together take a few megabytes.
	maxResults = 256
	// maxTextBytes bounds a string in a remembered result.
	maxTextBytes = 64
)

// rule is a CEL rule that remembers its results. Most rules read few fields, such as an algorithm, and most objects have
// the same values there.
type rule struct {
	program celgo.Program
	start   step // whose outcome is the value itself, or anObject
	results atomic.Int64
}

// step is a step of the evaluation of a rule, after the reads of some fields: the read of another field, or the end, where the rule
// holds. It depends on the outcomes of these reads alone, so equal outcomes lead to the same step.
type step struct {
	field string   // which it reads
	next  sync.Map // from the outcome of the read to *step
	holds bool
	cost  uint64 // of the whole evaluation, if it holds
}

// Outcomes of reads, beside scalars.
type (
	anObject struct{}
	absent   struct{}
)

// cost returns what an evaluation of the rule costs, if the value is known to satisfy it. schema is the schema of the value.
func (r *rule) cost(value any, schema common.Schema) (cost uint64, holds bool) {
	fields, isObject := value.(map[string]any)
	first, rememberable := outcome(value)
	if isObject {
		first, rememberable = anObject{}, true
	}
	if !rememberable {
		return r.evaluate(common.UnstructuredToVal(value, schema))
	}
	if at := r.recall(first, fields); at != nil {
		return at.cost, true
	}
	self := common.UnstructuredToVal(value, schema)
	object, isMapper := self.(traits.Mapper)
	switch {
	case r.results.Load() >= maxResults || isObject && !isMapper:
		return r.evaluate(self)
	case !isObject:
		cost, holds = r.evaluate(self)
		if holds {
			r.remember([]read{{outcome: first}}, cost)
		}
		return cost, holds
	}
	recorded := &recorder{object: object, fields: fields, reads: []read{{outcome: first}}}
	cost, holds = r.evaluate(recorded)
	if recorded.incomplete {
		return r.evaluate(self)
	}
	if holds {
		r.remember(recorded.reads, cost)
	}
	return cost, holds
}

// evaluate is cost without remembering.
func (r *rule) evaluate(self ref.Val) (cost uint64, holds bool) {
	result, details, err := r.program.Eval(map[string]any{cel.ScopedVarName: self})
	if err != nil || result != types.True || details == nil || details.ActualCost() == nil {
		return 0, false
	}
	return *details.ActualCost(), true
}

// recall returns the last step of the evaluation, or nil if it is not remembered.
func (r *rule) recall(first any, fields map[string]any) *step {
	at, key := &r.start, first
	for {
		next, found := at.next.Load(key)
		if !found {
			return nil
		}
		at = next.(*step) //nolint:forcetypeassert // only steps are stored
		if at.holds {
			return at
		}
		var ok bool
		if key, ok = outcomeOf(fields, at.field); !ok {
			return nil
		}
	}
}

// remember adds an evaluation after which the rule holds.
func (r *rule) remember(reads []read, cost uint64) {
	at := &r.start
	for i, read := range reads {
		to := &step{holds: true, cost: cost}
		if i+1 < len(reads) {
			to = &step{field: reads[i+1].field}
		}
		next, found := at.next.LoadOrStore(read.outcome, to)
		at = next.(*step) //nolint:forcetypeassert // only steps are stored
		if at.holds && !found {
			r.results.Add(1)
		}
	}
}

// read is a field that a rule has read, and the outcome.
type read struct {
	field   string
	outcome any
}

// outcome returns what represents the value in a remembered result.
func outcome(value any) (key any, ok bool) {
	if text, isText := value.(string); isText && len(text) > maxTextBytes {
		return nil, false
	}
	return scalar(value)
}

// outcomeOf returns the outcome of reading a field.
func outcomeOf(fields map[string]any, name string) (key any, ok bool) {
	value, found := fields[name]
	if !found {
		return absent{}, true
	}
	return outcome(value)
}

// recorder is an object for rules that records which fields they read.
type recorder struct {
	object     traits.Mapper
	fields     map[string]any
	reads      []read
	incomplete bool // the rule has read something that is not in reads
}

// Find implements traits.Mapper. Rules read fields by it, also in has().
func (r *recorder) Find(key ref.Val) (ref.Val, bool) {
	name, isText := key.(types.String)
	r.record(string(name), isText)
	return r.object.Find(key)
}

func (r *recorder) record(name string, isText bool) {
	for i := range r.reads[1:] {
		if r.reads[i+1].field == name {
			return
		}
	}
	value, ok := outcomeOf(r.fields, name)
	if !ok || !isText || strings.Contains(name, "__") { // else the name of the field is not escaped
		r.incomplete = true
	}
	r.reads = append(r.reads, read{field: name, outcome: value})
}

// all returns the object for an operation on the whole object, whose reads are not recorded.
func (r *recorder) all() traits.Mapper {
	r.incomplete = true
	return r.object
}

// ConvertToNative implements ref.Val.
func (r *recorder) ConvertToNative(t reflect.Type) (any, error) { return r.all().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (r *recorder) ConvertToType(t ref.Type) ref.Val { return r.all().ConvertToType(t) }

// Equal implements ref.Val.
func (r *recorder) Equal(other ref.Val) ref.Val { return r.all().Equal(other) }

// Type implements ref.Val.
func (r *recorder) Type() ref.Type { return r.all().Type() }

// Value implements ref.Val.
func (r *recorder) Value() any { return r.all().Value() }

// Contains implements traits.Container.
func (r *recorder) Contains(value ref.Val) ref.Val { return r.all().Contains(value) }

// Get implements traits.Indexer.
func (r *recorder) Get(key ref.Val) ref.Val { return r.all().Get(key) }

// Iterator implements traits.Iterable.
func (r *recorder) Iterator() traits.Iterator { return r.all().Iterator() }

// Size implements traits.Sizer.
func (r *recorder) Size() ref.Val { return r.all().Size() }
