// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
)

// FuzzTarget expects a decoded target to equal what encoding/json decodes, and an error to
// name a field.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{
		`{"policy":"shop/login","key":"alice"}`, `{"policy":"shop/login","key":["a","b"],"duration":"10m"}`,
		`{"policy":"shop/shared"}`, `{"policy":"a/b","policy":"a/c"}`, `{"policy":"a/b","key":"\ud800"}`,
		`{"policy":"a/b","duration":"1h"}`, `{"Policy":"a/b"}`, `{}`, `[`, ``, "\xff",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, block bool) {
		g := NewWithT(t)
		verb := VerbReset
		if block {
			verb = VerbBlock
		}
		got, err := decodeTarget(bytes.Clone(body), verb)
		if err != nil {
			_, ok := errors.AsType[*limiter.FieldError](err)
			g.Expect(ok).To(BeTrue())
			return
		}
		var reference struct {
			Policy   string
			Key      any
			Duration string
		}
		g.Expect(json.Unmarshal(body, &reference)).To(Succeed())
		g.Expect(got.policy).To(Equal(reference.Policy))
		switch key := reference.Key.(type) {
		case nil:
			g.Expect(got.key).To(BeNil())
		case string:
			g.Expect(got.key).To(Equal([]string{key}))
		default:
			g.Expect(got.key).To(HaveLen(len(key.([]any))))
			for i, part := range key.([]any) {
				g.Expect(got.key[i]).To(Equal(part))
			}
		}
		if !block {
			g.Expect(reference.Duration).To(BeEmpty())
		} else {
			want, err := time.ParseDuration(reference.Duration)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.duration).To(Equal(want))
		}
	})
}
