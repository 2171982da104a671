// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestTableOf(t *testing.T) {
	g := NewWithT(t)
	table, err := tableOf([]byte(`# About the file.

# How many.
replicas: 2

image:
  # Where it is,
  # or is not.
  repository: a/b
# Either | or.
resources:
  limits: {memory: 1Gi}
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(table).To(Equal("| value | default | |\n|---|---|---|\n" +
		"| `replicas` | `2` | How many. |\n" +
		"| `image.repository` | `\"a/b\"` | Where it is, or is not. |\n" +
		"| `resources` | `{\"limits\":{\"memory\":\"1Gi\"}}` | Either \\| or. |\n"))

	_, err = tableOf([]byte("a:\n  b: 1\n"))
	g.Expect(err).To(MatchError("a.b: has no comment in values.yaml"))
}

func TestInsert(t *testing.T) {
	g := NewWithT(t)
	once, err := insert("a\n"+begin+end+"b\n", "table\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(once).To(Equal("a\n" + begin + "\ntable\n\n" + end + "b\n"))
	g.Expect(insert(once, "table\n")).To(Equal(once))
	_, err = insert("a\n", "table\n")
	g.Expect(err).To(HaveOccurred())
}
