// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// unblocks serves the state API: it counts the keys that are to be unblocked, which were blocked.
func unblocks(t *testing.T, status int) (flags []string, keys *[]string) {
	t.Helper()
	keys = &[]string{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var target struct {
			Policy string   `json:"policy"`
			Key    []string `json:"key"`
		}
		_ = json.NewDecoder(r.Body).Decode(&target)
		*keys = append(*keys, r.URL.Path+" "+target.Policy+" "+strings.Join(target.Key, " "))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"found":true}`))
	}))
	t.Cleanup(api.Close)
	token := filepath.Join(t.TempDir(), "token")
	NewWithT(t).Expect(os.WriteFile(token, []byte("secret"), 0o600)).To(Succeed())
	return []string{"--unblock", "--address", api.URL, "--token-file", token}, keys
}

// A raise applies when it returns, ends by itself, and prune deletes it.
func TestRaiseAndPrune(t *testing.T) {
	g := NewWithT(t)
	api, url := startManager(t)
	policy := testpolicy.Make("shop/api-quota").Key(testpolicy.PrincipalPart()).Limit("burst", v1alpha1.AlgorithmFixedWindow, 1, "1h").Obj()
	g.Expect(api.Create(t.Context(), policy)).To(Succeed())
	check := func(key string) (status int) {
		response, err := http.Post(url+"/v1/check", "application/json", strings.NewReader(`{"policies":["shop/api-quota"],"key":"`+key+`"}`))
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	succeed := func(args ...string) string {
		t.Helper()
		code, out, complaint := command(t, args...)
		g.Expect(code).To(Equal(0), complaint)
		return out
	}
	g.Eventually(func() int { return check("acme") }, timeout).Should(Equal(http.StatusTooManyRequests))
	g.Expect(check("globex")).To(Equal(http.StatusOK))

	g.Expect(succeed("exceptions", "-n", "shop")).To(Equal("No exceptions.\n"))
	out := succeed("raise", "shop/api-quota", "acme", "--limit", "burst=3", "--for", "4h", "--reason", "launch, ticket 4711")
	g.Expect(out).To(MatchRegexp(`^acme has burst threshold 3 until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, by RateLimitException api-quota-[0-9a-f]{10}\.\n$`))
	g.Expect(check("acme")).To(Equal(http.StatusOK), "at once")
	g.Expect(check("globex")).To(Equal(http.StatusTooManyRequests))

	list := &v1alpha1.RateLimitExceptionList{}
	g.Expect(api.List(t.Context(), list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1))
	e := &list.Items[0]
	g.Expect(e.Annotations).To(HaveKeyWithValue(v1alpha1.RequestedByAnnotation, "admin"))
	g.Expect(e.Spec.Until.Time).To(BeTemporally("~", time.Now().Add(4*time.Hour), time.Minute))
	g.Expect(succeed("exceptions", "api-quota", "-n", "shop")).To(MatchRegexp(
		`(?m)^NAMESPACE +NAME +POLICY +KEY +CHANGE +UNTIL +STATE +REQUESTED BY +REASON\nshop +api-quota-[0-9a-f]+ +api-quota +acme +burst threshold 3 +\S+Z +in force +admin +launch, ticket 4711\n$`))
	g.Expect(succeed("exceptions", "other", "-n", "shop")).To(Equal("No exceptions.\n"))

	flags, unblocked := unblocks(t, http.StatusOK)
	out = succeed(append([]string{"raise", "api-quota", "acme", "--limit", "burst=4", "--for", "1h", "-n", "shop"}, flags...)...)
	g.Expect(out).To(HaveSuffix("\nLifted the block of the key.\n"))
	g.Expect(*unblocked).To(Equal([]string{"/v1/unblock shop/api-quota acme"}))
	g.Expect(api.List(t.Context(), list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1), "a second raise changes the first one")

	t.Run("an address stands for its network", func(t *testing.T) {
		g := NewWithT(t)
		part := v1alpha1.KeyPart{Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{}}
		addresses := testpolicy.Make("shop/addresses").Key(part).Limit("burst", v1alpha1.AlgorithmFixedWindow, 1, "1h").Obj()
		g.Expect(api.Create(t.Context(), addresses)).To(Succeed())
		raised := func() (list []v1alpha1.RateLimitException) {
			all := &v1alpha1.RateLimitExceptionList{}
			g.Expect(api.List(t.Context(), all)).To(Succeed())
			for i := range all.Items {
				if all.Items[i].Spec.Policy == "addresses" {
					list = append(list, all.Items[i])
				}
			}
			return list
		}
		succeed("raise", "shop/addresses", "2001:db8::1", "--limit", "burst=3", "--for", "4h")
		first := raised()
		g.Expect(first).To(HaveLen(1))
		for _, same := range []string{"2001:DB8::9", "2001:db8::/64", "2001:db8:0:0:ffff::"} {
			succeed("raise", "shop/addresses", same, "--limit", "burst=2", "--for", "1m")
			second := raised()
			g.Expect(second).To(HaveLen(1), same)
			g.Expect(second[0].Name).To(Equal(first[0].Name))
			g.Expect(second[0].Spec.Key).To(Equal([]string{"2001:db8::/64"}))
			g.Expect(second[0].Spec.Until.Time).To(BeTemporally("<", first[0].Spec.Until.Time), "it ends earlier")
		}
		succeed("raise", "shop/addresses", "192.0.2.1", "--limit", "burst=2", "--for", "1m")
		succeed("raise", "shop/addresses", "::ffff:192.0.2.1", "--limit", "burst=2", "--for", "1m")
		g.Expect(raised()).To(HaveLen(2))

		unblock, targets := unblocks(t, http.StatusOK)
		succeed(append([]string{"raise", "shop/addresses", "--limit", "burst=2", "--for", "1m"}, unblock...)...)
		g.Expect(*targets).To(Equal([]string{"/v1/unblock shop/addresses "}), "the shared budget of requests without an address")
		g.Expect(raised()).To(HaveLen(3))
	})

	t.Run("what fails", func(t *testing.T) {
		g := NewWithT(t)
		forbidden, _ := unblocks(t, http.StatusForbidden)
		for want, args := range map[string][]string{
			"Forbidden: 11 is more than 10":                               {"raise", "api-quota", "globex", "--limit", "burst=11", "--for", "1h"},
			"does not accept exceptions with action Allow":                {"raise", "api-quota", "globex", "--allow", "--for", "1h"},
			"the exception is in force, but the block of the key was not": append([]string{"raise", "api-quota", "globex", "--limit", "burst=2", "--for", "1h"}, forbidden...),
		} {
			code, _, complaint := command(t, append(args, "-n", "shop")...)
			g.Expect(complaint).To(ContainSubstring(want))
			g.Expect(code).To(Equal(1))
		}
	})

	g.Expect(succeed("exceptions", "prune", "-A")).To(Equal("No exception has ended.\n"))
	succeed("raise", "api-quota", "acme", "--limit", "burst=9", "--for", "2s", "-n", "shop")
	g.Eventually(func() string { return succeed("exceptions", "-n", "shop") }, timeout).Should(MatchRegexp(` acme .* ended `))
	g.Expect(check("acme")).To(Equal(http.StatusTooManyRequests))
	g.Expect(succeed("exceptions", "prune", "-n", "shop", "--dry-run")).To(MatchRegexp(`^Would delete shop/api-quota-[0-9a-f]+, which ended at \S+Z\.\n$`))
	g.Expect(succeed("exceptions", "prune", "-A")).To(MatchRegexp(`^Deleted shop/api-quota-[0-9a-f]+, which ended at \S+Z\.\n$`))
	gone := &v1alpha1.RateLimitException{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: e.Name}}
	g.Expect(client.IgnoreNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(gone), gone))).To(Succeed())
	g.Expect(succeed("exceptions", "-n", "shop")).NotTo(ContainSubstring("acme"))
}
