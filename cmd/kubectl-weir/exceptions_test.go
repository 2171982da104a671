// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

// The sample exception fits the sample policy.
func TestTheSampleExceptionIsValid(t *testing.T) {
	g := NewWithT(t)
	code, out, complaint := command(t, "validate", "../../config/samples/api-quota.yaml", "../../config/samples/exceptions")
	g.Expect(code).To(Equal(0), out+complaint)
	g.Expect(out).To(ContainSubstring("0 errors"))
	g.Expect(out).To(ContainSubstring("1 valid exception"))
}
