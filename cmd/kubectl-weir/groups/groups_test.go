// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestReadKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		file, text, column string
		want               []string
		wrong              string
	}{
		"a key a line":         {"keys.txt", "\ufeffb\r\n\n  a \nb\n#c\n", "", []string{"#c", "a", "b"}, ""},
		"commas in lines":      {"keys.txt", "a,b\n", "", []string{"a,b"}, ""},
		"CSV":                  {"keys.csv", "\"a,b\"\nc\n", "", []string{"a,b", "c"}, ""},
		"a column of CSV":      {"keys.txt", "\ufefftenant, plan\nacme, gold\nglobex, gold\n", "plan", []string{"gold"}, ""},
		"the first of several": {"keys.csv", "tenant,plan\nacme,gold\n", "tenant", []string{"acme"}, ""},
		"no such column":       {"keys.csv", "tenant,plan\nacme,gold\n", "name", nil, "keys.csv: --column name: the first line names tenant, plan"},
		"several columns":      {"keys.csv", "acme,gold\n", "", nil, "keys.csv: has 2 columns: name the column of the keys with --column"},
		"an uneven row":        {"keys.csv", "tenant,plan\nacme\n", "tenant", nil, "keys.csv: record on line 2: wrong number of fields"},
		"nothing":              {"keys.txt", "\n \n", "", nil, "keys.txt: has no keys; to remove a group, delete its RateLimitKeyGroups"},
		"a long key":           {"keys.txt", "a\n" + strings.Repeat("ü", 256), "", nil, "keys.txt: line 2: the key has 256 characters, at most 255 are allowed"},
		"binary":               {"keys.txt", "a\n\xff\n", "", nil, "keys.txt: line 2: is not text in UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(t.TempDir(), tc.file)
			g.Expect(os.WriteFile(path, []byte(tc.text), 0o600)).To(Succeed())
			got, err := readKeys(path, tc.column, nil)
			if tc.wrong != "" {
				g.Expect(err).To(MatchError(HaveSuffix(tc.wrong)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.keys).To(Equal(tc.want))
		})
	}
	got, err := readKeys("-", "", strings.NewReader(strings.Repeat("a\n", 2)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(*got).To(Equal(keyFile{keys: []string{"a"}, duplicates: 1}))
}

// sorted keys, and the objects of an import of them.
func imported(t *testing.T, existing []v1alpha1.RateLimitKeyGroup, keys []string, shards int) (*groupChange, []v1alpha1.RateLimitKeyGroup) {
	t.Helper()
	c, err := changeOf("shop", "gold", keys, existing, shards)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	after := map[string]v1alpha1.RateLimitKeyGroup{}
	for _, o := range existing {
		after[o.Name] = o
	}
	for _, o := range c.apply {
		after[o.Name] = *o
	}
	for _, name := range c.remove {
		delete(after, name)
	}
	var objects []v1alpha1.RateLimitKeyGroup
	for _, o := range after {
		objects = append(objects, o)
	}
	return c, objects
}

// A truncated file must not empty a group.
func TestRemovalsAreBounded(t *testing.T) {
	change := func(before, removed int) *groupChange {
		return &groupChange{before: before, removed: make([]string, removed)}
	}
	for name, tc := range map[string]struct {
		flag            string
		before, removed int
		allowed         bool
	}{
		"a tenth":              {"10%", 1000, 100, true},
		"more than a tenth":    {"10%", 1000, 101, false},
		"one of a small group": {"10%", 3, 1, true},
		"two of a small group": {"10%", 3, 2, false},
		"a number":             {"50", 1000, 50, true},
		"more than the number": {"50", 60, 51, false},
		"none":                 {"0", 10, 1, false},
		"nothing is removed":   {"0%", 10, 0, true},
		"all":                  {"100%", 10, 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, guard := NewWithT(t), &removalGuard{text: tc.flag}
			g.Expect(guard.validate()).To(Succeed())
			err := guard.check(strings.NewReader("y\n"), io.Discard, "keys.txt", change(tc.before, tc.removed))
			if tc.allowed {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(fmt.Sprintf("keys.txt lacks %d of the %d keys of the group, more than --max-removed %s: if the file is complete, set --max-removed %[1]d",
				tc.removed, tc.before, tc.flag)), "standard input is no terminal")
		})
	}
	for _, text := range []string{"", "x", "-1", "101%", "0.5"} {
		NewWithT(t).Expect((&removalGuard{text: text}).validate()).To(MatchError(ContainSubstring("must be a share such as 10% or a number")), text)
	}
	for answer, ok := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "n\n": false, "\n": false, "": false} {
		g := NewWithT(t)
		var asked strings.Builder
		g.Expect(confirm(strings.NewReader(answer), &asked, "Remove? ")).To(Equal(ok), answer)
		g.Expect(asked.String()).To(Equal("Remove? "))
	}
}

func TestAnAddedKeyChangesOneObject(t *testing.T) {
	g := NewWithT(t)
	keys := make([]string, 20_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%05d", i)
	}
	first, objects := imported(t, nil, keys, 0)
	g.Expect([]int{first.shards, len(objects), len(first.added)}).To(Equal([]int{40, 40, 20_000}))
	again, _ := imported(t, objects, keys, 0)
	g.Expect(again.isEmpty()).To(BeTrue())
	more, objects := imported(t, objects, slices.Concat(keys, []string{"zeta"}), 0)
	g.Expect([]any{len(more.apply), len(more.remove), more.unchanged, more.added}).To(Equal([]any{1, 0, 39, []string{"zeta"}}))
	less, _ := imported(t, objects, keys[:len(keys)-1], 0)
	g.Expect(len(less.apply)).To(BeNumerically("<=", 2))
	g.Expect(less.removed).To(Equal([]string{"tenant-19999", "zeta"}))

	placed, objects := imported(t, objects, keys, 64)
	g.Expect([]int{len(placed.apply), len(placed.remove), len(objects), len(placed.added), len(placed.removed)}).To(Equal([]int{64, 40, 64, 0, 1}))
	kept, _ := imported(t, objects, keys, 0)
	g.Expect([]any{kept.isEmpty(), kept.shards}).To(Equal([]any{true, 64}), "the number stays")

	_, err := changeOf("shop", "gold", keys, nil, 10)
	g.Expect(err).To(MatchError(MatchRegexp(`object \d of 10 would have \d{4} keys, at most 1000 are allowed: divide the keys into more with --shards 40`)))
	foreign := []v1alpha1.RateLimitKeyGroup{
		{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"a", "b"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.RateLimitKeyGroupSpec{Group: "silver", Keys: []string{"c"}}},
	}
	beside, _ := imported(t, foreign, []string{"x"}, 0)
	g.Expect([]any{beside.foreign, beside.remove}).To(Equal([]any{2, []string(nil)}))
}
