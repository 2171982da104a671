// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

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
	g.Eventually(threshold, timeout).WithArguments("acme").Should(Equal(int64(500)))
	g.Expect(threshold("initech")).To(Equal(int64(5)))
	g.Expect(strings.Fields(succeed(0, "list"))).To(Equal([]string{"GROUP", "KEYS", "OBJECTS", "READY", "gold", "2", "2", "2/2"}))

	diff := []string{"diff", file, "--column", "tenant", "--group", "gold"}
	g.Expect(succeed(0, diff...)).To(BeEmpty())
	write("acme,gold", "initech,gold")
	g.Expect(succeed(1, diff...)).To(Equal("+ initech\n- globex\n"))
	g.Expect(succeed(0, "import", file, "--column", "tenant", "--group", "gold")).To(ContainSubstring("1 keys added, 1 removed"))
	g.Expect([]int64{threshold("acme"), threshold("globex"), threshold("initech")}).To(Equal([]int64{500, 5, 500}), "at once")

	write("acme,gold")
	truncate := []string{"groups", "import", file, "--column", "tenant", "--group", "gold", "-n", "shop"}
	code, _, complaint := command(t, append(truncate, "--max-removed", "0")...)
	g.Expect(code).To(Equal(1))
	g.Expect(complaint).To(ContainSubstring("lacks 1 of the 2 keys of the group, more than --max-removed 0: if the file is complete, set --max-removed 1"))
	g.Expect(threshold("initech")).To(Equal(int64(500)))
	write("acme,gold", "initech,gold")

	list := &v1alpha1.RateLimitKeyGroupList{}
	g.Expect(api.List(t.Context(), list, client.InNamespace("shop"))).To(Succeed())
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
			"--group: is required":                            {"import", file},
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
