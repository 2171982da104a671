// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/spelling"
)

const (
	policyKind    = "RateLimitPolicy"
	keyGroupKind  = "RateLimitKeyGroup"
	exceptionKind = "RateLimitException"
)

// kinds are the kinds of objects that are read.
var kinds = []string{policyKind, keyGroupKind, exceptionKind}

// object is one object of a document: the document itself, or an item of a list.
type object struct {
	document *document
	// path is the path of the object within the document, as "items[1]"; empty for the document.
	path    string
	content map[string]any
	// policy and name are Policy and Object of its problems.
	policy, name string
}

// Object returns the kind with "<namespace>/<name>" of an object that is not a policy.
func (o *object) Object() string { return o.name }

// Position returns the position of the field, such as "spec.limits[0].window". For a field
// that is not set it is the position of the closest field around it.
func (o *object) Position(field string) Position {
	path := o.path
	if path != "" && field != "" {
		path += "."
	}
	return o.document.position(path + field)
}

// Problem returns a problem of the field.
func (o *object) Problem(field, text string) Problem {
	return Problem{Position: o.Position(field), Document: o.document.number, Policy: o.policy, Object: o.name, Field: field, Text: text}
}

// problem is Problem with a text that begins with the path of the object.
func (o *object) problem(field, text string) Problem {
	if o.path != "" {
		text = o.path + ": " + text
	}
	return o.Problem(field, text)
}

func (f *File) readObject(ctx context.Context, o object) {
	apiVersion, _ := o.content["apiVersion"].(string)
	kind, _ := o.content["kind"].(string)
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || kind == "" || apiVersion == "" {
		f.add(o.problem("", fmt.Sprintf("apiVersion %q and kind %q do not name a resource", apiVersion, kind)))
		return
	}
	core, ours := version == schema.GroupVersion{Version: "v1"}, version == v1alpha1.GroupVersion
	switch {
	case core && kind == "List", ours && slices.Contains(kinds, strings.TrimSuffix(kind, "List")) && strings.HasSuffix(kind, "List"):
		f.readItems(ctx, o)
	case core && kind == "Namespace":
		f.readNamespace(o)
	case version.Group != v1alpha1.GroupVersion.Group:
	case !ours:
		p := o.problem("apiVersion", unsupported(apiVersion, kind))
		p.Suggestion = v1alpha1.GroupVersion.String()
		f.add(p)
	default:
		f.readKind(ctx, o, kind)
	}
}

// readKind reads an object of Weir.
func (f *File) readKind(ctx context.Context, o object, kind string) {
	switch kind {
	case policyKind:
		if policy := readTyped[v1alpha1.RateLimitPolicy](ctx, f, &o, kind); policy != nil {
			f.Policies = append(f.Policies, &Policy{RateLimitPolicy: policy, object: o})
		}
	case keyGroupKind:
		if group := readTyped[v1alpha1.RateLimitKeyGroup](ctx, f, &o, kind); group != nil {
			f.KeyGroups = append(f.KeyGroups, &KeyGroup{RateLimitKeyGroup: group, object: o})
		}
	case exceptionKind:
		if exception := readTyped[v1alpha1.RateLimitException](ctx, f, &o, kind); exception != nil {
			f.Exceptions = append(f.Exceptions, &Exception{RateLimitException: exception, object: o})
		}
	default:
		p := o.problem("kind", unsupported(v1alpha1.GroupVersion.String(), kind))
		p.Suggestion = cmp.Or(spelling.Closest(kind, kinds), policyKind)
		f.add(p)
	}
}

func unsupported(apiVersion, kind string) string {
	last := len(kinds) - 1
	return fmt.Sprintf("apiVersion %q, kind %q: this release supports %s, %s and %s",
		apiVersion, kind, v1alpha1.GroupVersion, strings.Join(kinds[:last], ", "), kinds[last])
}

func (f *File) readItems(ctx context.Context, list object) {
	items, ok := list.content["items"].([]any)
	if !ok {
		f.add(list.problem("items", "items: must be a list"))
		return
	}
	for i, item := range items {
		o := object{document: list.document, path: fmt.Sprintf("items[%d]", i)}
		if list.path != "" {
			o.path = list.path + "." + o.path
		}
		if o.content, ok = item.(map[string]any); !ok {
			f.add(o.problem("", "must be an object"))
			continue
		}
		f.readObject(ctx, o)
	}
}

// readNamespace reads what grants depend on. The API server validates the rest.
func (f *File) readNamespace(o object) {
	metadata, _ := o.content["metadata"].(map[string]any)
	n := &Namespace{Annotations: map[string]string{}, Position: o.Position("metadata.name")}
	n.Name, _ = metadata["name"].(string)
	annotations, _ := metadata["annotations"].(map[string]any)
	for name, value := range annotations {
		if text, ok := value.(string); ok {
			n.Annotations[name] = text
		}
	}
	f.Namespaces = append(f.Namespaces, n)
}

// readTyped returns the object of the kind, with defaults filled in, or nil if it has problems, which it adds. Then
// only the position of the content is needed, so it drops it.
func readTyped[T any](ctx context.Context, f *File, o *object, kind string) *T {
	schema, err := schemaOf(kind)
	if err != nil {
		f.add(o.problem("", err.Error()))
		return nil
	}
	metadata, _ := o.content["metadata"].(map[string]any)
	if metadata != nil && metadata["namespace"] == nil {
		metadata["namespace"] = f.namespace
	}
	id := fmt.Sprintf("%v/%v", metadata["namespace"], metadata["name"])
	if kind == policyKind {
		o.policy = id
	} else {
		o.name = kind + " " + id
	}
	if errs := schema.validate(ctx, o.content); len(errs) > 0 {
		for _, err := range errs {
			p := o.problem(err.Field, err.Error())
			p.Suggestion = schema.suggestion(err)
			f.add(p)
		}
		return nil
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.content, typed); err != nil {
		f.add(o.problem("", err.Error()))
		return nil
	}
	o.content = nil
	return typed
}
