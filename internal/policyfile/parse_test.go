// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// The content of a document is equal to the content that kubectl decodes through JSON.
func TestContentIsAsKubectlReadsIt(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                     "# only a comment",
		"null":                        "null",
		"an empty object":             "{}",
		"a list":                      "[a]",
		"text":                        "text",
		"words that are booleans":     "{a: yes, b: off, c: Y, d: true, e: \"yes\"}",
		"nulls":                       "{a: ~, b: null, c: }",
		"integers":                    "{a: 0, b: -7, c: 010, d: 0x1F, e: 1_000, f: 0b11, g: 0o7, h: 190:20:30}",
		"the largest integers":        "{a: 9223372036854775807, b: -9223372036854775808}",
		"an integer that is too long": "{a: 18446744073709551615}",
		"numbers with a fraction":     "{a: 1.0, b: 1.5, c: 1e3, d: 1e400}",
		"no numbers":                  "{a: .nan}",
		"dates":                       "{a: 2026-11-26, b: 2026-11-26T10:00:00Z}",
		"odd keys":                    "{1: a, true: b, 1.5: c, x: d}",
		"a key that is null":          "{~: a}",
		"binary":                      "{a: !!binary /w==}",
		"tags":                        "{a: !!str 5, b: !!int \"7\", c: !!float 3}",
		"anchors":                     "{a: &x {b: [1, c]}, d: *x, e: *x}",
		"a merge key":                 "a: &x {b: 1}\nc:\n  <<: *x\n  d: 2",
		"escapes":                     `{a: "\u2028<&>\x00\xff", b: "\U0001F600"}`,
		"block text":                  "a: |\n  b\n  c\nd: >-\n  e\n  f",
		"a member twice":              "a: 1\na: 2",
		"no YAML":                     "a: [",
		"a deep structure":            strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"a deep field":                "{a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := &document{number: 1, line: 1, text: []byte(text)}
			content, problems := d.content()
			var want map[string]any
			encoded, err := yaml.YAMLToJSONStrict([]byte(text))
			if err == nil {
				err = json.Unmarshal(encoded, &want)
			}
			g.Expect(problems == nil).To(Equal(err == nil), "%v: %v", problems, err)
			if err == nil {
				g.Expect(content).To(Equal(want))
			}
		})
	}
}
