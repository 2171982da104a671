// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

const someCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example}
spec:
  group: example
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [mode]
            properties:
              mode: {type: string, enum: [Up, Down], description: "mode is what\n  it does | or not."}
              size: {type: integer, minimum: 1, maximum: 9, description: size of <it>.}
              names: {type: array, maxItems: 3, items: {type: string, minLength: 1, maxLength: 8}, description: "names, see {{a}}."}
              parts:
                type: array
                minItems: 1
                maxItems: 2
                description: parts of it.
                items:
                  type: object
                  x-kubernetes-validations: [{rule: "true", message: a rule}]
                  properties:
                    flag: {type: boolean, description: flag.}
          status: {type: object}
`

const somePage = `# Fields of Thing

All fields of ` + "`example/v1`. `make manifests`" + ` writes this page from the schema. A field with * is required.

## spec

| field | type | |
|---|---|---|
` + "| `mode`* | `Up`, `Down` | mode is what it does \\| or not. |" + `
` + "| `names` | array of string, 1 to 8 characters, up to 3 items | names, see &#123;&#123;a}}. |" + `
` + "| `parts` | [array](#specparts), 1 to 2 items | parts of it. |" + `
` + "| `size` | integer, 1 to 9 | size of &lt;it>. |" + `

## spec.parts[]

| field | type | |
|---|---|---|
` + "| `flag` | boolean | flag. |" + `

Rules:

- a rule

## status

| field | type | |
|---|---|---|
`

func TestPageOf(t *testing.T) {
	g := NewWithT(t)
	page, err := pageOf([]byte(someCRD))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(page).To(Equal(somePage))
	_, err = pageOf([]byte("kind: CustomResourceDefinition\nspecs: {}\n"))
	g.Expect(err).To(MatchError(ContainSubstring("specs")))
}
