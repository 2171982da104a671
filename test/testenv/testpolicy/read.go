// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Read returns the policies of the documents, with defaults filled in. It skips
// documents of other API groups, so that kubectl can use the same folder. The error
// joins the problems of all documents; each names the document, the policy and the
// field.
func Read(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, error) {
	file := policyfile.Parse(ctx, data, policyfile.DefaultNamespace)
	var policies []*v1alpha1.RateLimitPolicy
	for _, p := range file.Policies {
		policies = append(policies, p.RateLimitPolicy)
	}
	errs := make([]error, 0, len(file.Problems))
	for _, p := range file.Problems {
		text := p.Text
		if object := cmp.Or(p.Policy, p.Object); object != "" {
			text = object + ": " + text
		}
		errs = append(errs, fmt.Errorf("document %d: %s", p.Document, text))
	}
	return policies, errors.Join(errs...)
}
