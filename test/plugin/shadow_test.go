// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestShadowAndEnforce(t *testing.T) {
	g := NewWithT(t)
	api, url := startManager(t)
	login := testpolicy.Make("shop/login").Limit("burst", v1alpha1.AlgorithmFixedWindow, 1, "1h").Obj()
	g.Expect(api.Create(t.Context(), login)).To(Succeed())
	succeed := func(args ...string) string {
		code, out, complaint := command(t, append(args, "-n", "shop")...)
		g.Expect(code).To(Equal(0), complaint)
		return out
	}
	check := func() int {
		response, err := http.Post(url+"/v1/check", "application/json", strings.NewReader(`{"policies":["shop/login"]}`))
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	annotation := func() string {
		got := &v1alpha1.RateLimitPolicy{}
		g.Expect(api.Get(t.Context(), ctrlclient.ObjectKeyFromObject(login), got)).To(Succeed())
		for _, entry := range got.ManagedFields {
			if strings.Contains(entry.FieldsV1.String(), "shadow-until") {
				g.Expect(entry.Manager).To(Equal("weir-cli"))
			}
		}
		return got.Annotations[v1alpha1.ShadowUntilAnnotation]
	}

	g.Expect(succeed("enforce", "login")).To(Equal("shop/login was not in Shadow.\n"))
	g.Eventually(check, timeout).Should(Equal(http.StatusTooManyRequests))
	g.Expect(succeed("shadow", "login", "--for", "1h")).
		To(MatchRegexp(`^shop/login is in Shadow until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: it denies no request\.\n$`))
	g.Expect(check()).To(Equal(http.StatusOK), "at once")
	until, err := time.Parse(time.RFC3339, annotation())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(until).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))

	var got map[string]string
	g.Expect(json.Unmarshal([]byte(succeed("shadow", "login", "--for", "2h", "-o", "json")), &got)).To(Succeed())
	g.Expect(got).To(Equal(map[string]string{"policy": "shop/login", "shadowUntil": annotation()}))
	g.Expect(succeed("enforce", "login")).To(Equal("shop/login denies requests again.\n"))
	g.Expect(check()).To(Equal(http.StatusTooManyRequests), "at once")
	g.Expect(annotation()).To(BeEmpty())

	t.Run("what fails", func(t *testing.T) {
		g := NewWithT(t)
		disabled := testpolicy.Make("shop/disabled").Limit("burst", v1alpha1.AlgorithmFixedWindow, 1, "1h").Obj()
		disabled.Spec.Mode = v1alpha1.ModeDisabled
		g.Expect(api.Create(t.Context(), disabled)).To(Succeed())
		for want, args := range map[string][]string{
			`ratelimitpolicies.ratelimit.weir.dev "nonesuch" not found`: {"shadow", "nonesuch", "--for", "1h"},
			"shop/disabled: spec.mode is Disabled":                      {"shadow", "disabled", "--for", "1h"},
		} {
			code, out, complaint := command(t, append(args, "-n", "shop")...)
			g.Expect(complaint).To(ContainSubstring(want))
			g.Expect(code).To(Equal(1))
			g.Expect(out).To(BeEmpty())
		}
	})
}
