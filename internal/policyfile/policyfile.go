// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// DefaultNamespace is the namespace of a policy that sets none.
const DefaultNamespace = "default"

// Read returns the policies of the documents, with defaults filled in. It skips
// documents of other API groups, so that kubectl can use the same folder. The error
// joins the problems of all documents; each names the document, the policy and the
// field.
func Read(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, error) {
	var policies []*v1alpha1.RateLimitPolicy
	var errs []error
	documents := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return policies, errors.Join(errs...)
		}
		if err != nil {
			return nil, errors.Join(append(errs, fmt.Errorf("document %d: %w", number, err))...)
		}
		found, err := readDocument(ctx, document)
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", number, err))
		}
		policies = append(policies, found...)
	}
}

func readDocument(ctx context.Context, document []byte) ([]*v1alpha1.RateLimitPolicy, error) {
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(asJSON, &object); err != nil { // keeps integers exact
		return nil, err
	}
	if len(object) == 0 { // only comments
		return nil, nil
	}
	return readObject(ctx, object)
}

func readObject(ctx context.Context, object map[string]any) ([]*v1alpha1.RateLimitPolicy, error) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || kind == "" || apiVersion == "" {
		return nil, fmt.Errorf("apiVersion %q and kind %q do not name a resource", apiVersion, kind)
	}
	switch {
	case version == schema.GroupVersion{Version: "v1"} && kind == "List",
		version == v1alpha1.GroupVersion && kind == "RateLimitPolicyList":
		return readItems(ctx, object)
	case version.Group != v1alpha1.GroupVersion.Group:
		return nil, nil
	case version != v1alpha1.GroupVersion || kind != "RateLimitPolicy":
		return nil, fmt.Errorf("apiVersion %q, kind %q: this release supports %s, RateLimitPolicy",
			apiVersion, kind, v1alpha1.GroupVersion)
	}
	policy, err := readPolicy(ctx, object)
	if err != nil {
		return nil, err
	}
	return []*v1alpha1.RateLimitPolicy{policy}, nil
}

func readItems(ctx context.Context, list map[string]any) ([]*v1alpha1.RateLimitPolicy, error) {
	items, ok := list["items"].([]any)
	if !ok {
		return nil, errors.New("items: must be a list")
	}
	var policies []*v1alpha1.RateLimitPolicy
	var errs []error
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			errs = append(errs, fmt.Errorf("items[%d]: must be an object", i))
			continue
		}
		found, err := readObject(ctx, object)
		if err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
		policies = append(policies, found...)
	}
	return policies, errors.Join(errs...)
}

func readPolicy(ctx context.Context, object map[string]any) (*v1alpha1.RateLimitPolicy, error) {
	schema, err := loadSchema()
	if err != nil {
		return nil, err
	}
	metadata, _ := object["metadata"].(map[string]any)
	if metadata != nil && metadata["namespace"] == nil {
		metadata["namespace"] = DefaultNamespace
	}
	id := fmt.Sprintf("%v/%v", metadata["namespace"], metadata["name"])
	if errs := schema.validate(ctx, object); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", id, errs.ToAggregate())
	}
	policy := &v1alpha1.RateLimitPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, policy); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	return policy, nil
}
