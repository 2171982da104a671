// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/testenv/testpolicy"
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

func TestGroupsOfACluster(t *testing.T) {
	g := NewWithT(t)
	api, url := startManager(t)
	succeed := func(wantCode int, args ...string) string {
		t.Helper()
		code, out, complaint := command(t, append(append([]string{"groups"}, args...), "-n", "shop")...)
		g.Expect(code).To(Equal(wantCode), complaint)
		return out
	}
	file := filepath.Join(t.TempDir(), "tenants.csv")
	write := func(rows ...string) {
		g.Expect(os.WriteFile(file, []byte("tenant,plan\n"+strings.Join(rows, "\n")+"\n"), 0o600)).To(Succeed())
	}
	g.Expect(succeed(0, "list")).To(Equal("No RateLimitKeyGroup in Namespace shop.\n"))
	g.Expect(api.Create(t.Context(), testpolicy.Make("shop/api").Key(testpolicy.PrincipalPart()).Limit("burst", v1alpha1.AlgorithmFixedWindow, 5, "1h").
		Override(v1alpha1.Override{Name: "gold", Groups: []string{"gold"}, Limits: []v1alpha1.LimitOverride{{Name: "burst", Threshold: new(int64(500))}}}).
		Obj())).To(Succeed())
	threshold := func(key string) int64 {
		response, err := http.Post(url+"/v1/check", "application/json", strings.NewReader(`{"policies":["shop/api"],"key":"`+key+`"}`))
		if err != nil {
			return 0
		}
		defer func() { _ = response.Body.Close() }()
		var answer struct {
			Limits []struct {
				Threshold int64
				Group     string
			}
		}
		text, _ := io.ReadAll(response.Body)
		if json.Unmarshal(text, &answer) != nil || len(answer.Limits) == 0 {
			return 0
		}
		group := map[bool]string{true: "gold"}[answer.Limits[0].Threshold == 500]
		g.Expect(answer.Limits[0].Group).To(Equal(group), string(text))
		return answer.Limits[0].Threshold
	}

	write("acme,gold", "globex,gold", "acme,gold")
	importing := []string{"import", file, "--column", "tenant", "--group", "gold", "--shards", "4"}
	g.Expect(succeed(0, append(importing, "--dry-run")...)).To(Equal("+ acme\n+ globex\n2 keys added, 0 removed; 2 of 2 objects applied, 0 deleted (dry run)\n"))
	g.Expect(succeed(0, "list")).To(ContainSubstring("No RateLimitKeyGroup"), "a dry run stores nothing")
	g.Expect(succeed(0, importing...)).To(HaveSuffix("2 keys added, 0 removed; 2 of 2 objects applied, 0 deleted\n"))
	g.Eventually(threshold, "30s", "50ms").WithArguments("acme").Should(Equal(int64(500)))
	g.Expect(threshold("initech")).To(Equal(int64(5)))
	g.Expect(strings.Fields(succeed(0, "list"))).To(Equal([]string{"GROUP", "KEYS", "OBJECTS", "READY", "gold", "2", "2", "2/2"}))

	diff := []string{"diff", file, "--column", "tenant", "--group", "gold"}
	g.Expect(succeed(0, diff...)).To(BeEmpty())
	write("acme,gold", "initech,gold")
	g.Expect(succeed(1, diff...)).To(Equal("+ initech\n- globex\n"))
	g.Expect(succeed(0, "import", file, "--column", "tenant", "--group", "gold")).To(ContainSubstring("1 keys added, 1 removed"))
	g.Expect([]int64{threshold("acme"), threshold("globex"), threshold("initech")}).To(Equal([]int64{500, 5, 500}), "at once")

	list := &v1alpha1.RateLimitKeyGroupList{}
	g.Expect(api.List(t.Context(), list, kube.InNamespace("shop"))).To(Succeed())
	for _, o := range list.Items {
		g.Expect(o.Name).To(MatchRegexp(`^gold-\d-of-4$`))
		g.Expect(o.ManagedFields[0].Manager).To(Equal("weir-cli"))
	}
	var groups struct{ Groups []map[string]any }
	g.Expect(json.Unmarshal([]byte(succeed(0, "list", "-o", "json")), &groups)).To(Succeed())
	g.Expect(groups.Groups).To(ConsistOf(HaveKeyWithValue("keys", BeEquivalentTo(2))))

	t.Run("an object of another manager", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(api.Create(t.Context(), &v1alpha1.RateLimitKeyGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tin-0-of-1"},
			Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: "iron", Keys: []string{"hooli"}},
		})).To(Succeed())
		code, _, complaint := command(t, "groups", "import", file, "--column", "tenant", "--group", "tin", "--shards", "1", "-n", "shop")
		g.Expect(code).To(Equal(1))
		g.Expect(complaint).To(And(ContainSubstring("error: tin-0-of-1: Apply failed with 2 conflicts"), ContainSubstring(".spec.keys")))
	})
	t.Run("what fails", func(t *testing.T) {
		g := NewWithT(t)
		for want, args := range map[string][]string{
			"--group: give the name of the group":             {"import", file},
			`--group "Gold": a lowercase RFC 1123 label must`: {"import", file, "--group", "Gold"},
			"--shards 0: must be 1 to 10000":                  {"import", file, "--group", "gold", "--shards", "0"},
			"has 2 columns: name the column":                  {"import", file, "--group", "gold"},
			"no such file or directory":                       {"import", "/no/such/file", "--group", "gold"},
			"--address: the command reads and changes":        {"list", "--address", "http://127.0.0.1:1"},
		} {
			code, out, complaint := command(t, append(append([]string{"groups"}, args...), "-n", "shop")...)
			g.Expect(complaint).To(ContainSubstring(want))
			g.Expect(code).To(BeNumerically(">", 0))
			g.Expect(out).To(BeEmpty())
		}
		code, _, _ := command(t, "groups", "diff", "/no/such/file", "--group", "gold", "-n", "shop")
		g.Expect(code).To(Equal(3))
	})
}
