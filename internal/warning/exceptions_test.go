// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestException(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)
	except := func(name string, length time.Duration, key ...string) *plan.Exception {
		return &plan.Exception{Namespace: "shop", Name: name, Policy: "api", Key: key, UntilMillis: now.Add(length).UnixMilli()}
	}
	keyed := &plan.Plan{Namespace: "shop", Name: "api", Key: []plan.KeyPart{{Type: plan.KeyPrincipal}}, OnMissingKey: plan.MissingKeyShare, Overrides: []plan.Override{
		{Name: "by-address", Keys: []string{"partner"}, When: "true", Action: plan.ActionAllow},
		{Name: "gold", Keys: []string{"acme"}, Action: plan.ActionLimit},
		{Name: "office", Keys: []string{"acme", "office"}, Action: plan.ActionAllow},
	}}
	skipping := &plan.Plan{Namespace: "shop", Name: "api", Key: keyed.Key, OnMissingKey: plan.MissingKeySkip}
	shared := &plan.Plan{Namespace: "shop", Name: "api"}
	for name, tc := range map[string]struct {
		exception *plan.Exception
		of        *plan.Plan
		others    []*plan.Exception
		want      []string
	}{
		"a key":                     {except("a", time.Hour, "acme"), keyed, []*plan.Exception{except("a", 2*time.Hour, "acme"), except("b", time.Hour, "globex")}, nil},
		"the shared budget":         {except("a", time.Hour), shared, nil, nil},
		"the budget without a key":  {except("a", time.Hour), keyed, nil, nil},
		"an override that may not":  {except("a", time.Hour, "partner"), keyed, nil, nil},
		"ended":                     {except("a", 0, "acme"), keyed, nil, []string{"spec.until: has passed, so the exception has no effect"}},
		"another that has ended":    {except("a", time.Hour, "acme"), keyed, []*plan.Exception{except("b", 0, "acme")}, nil},
		"another that ends later":   {except("a", time.Hour, "acme"), keyed, []*plan.Exception{except("b", 2*time.Hour, "acme")}, []string{"spec.key: exception b is for the same key: until 2026-11-26T06:00:00Z only b applies, which ends last"}},
		"another that ends earlier": {except("a", 2*time.Hour, "acme"), keyed, []*plan.Exception{except("b", time.Hour, "acme")}, []string{"spec.key: exception b is for the same key: until 2026-11-26T06:00:00Z only a applies, which ends last"}},
		"no request without a key":  {except("a", time.Hour), skipping, nil, []string{"spec.key: has no parts, and onMissingKey Skip lets no request without a key reach a limit"}},
		"two parts":                 {except("a", time.Hour, "a", "b"), keyed, nil, []string{"spec.key: only checks that name this key have it: shop/api has the key [principal]: give one part"}},
		"an exempt key":             {except("a", time.Hour, "office"), keyed, nil, []string{"spec.key: override office of the policy selects the key with action Allow, so the exception has no effect"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(Exception(tc.exception, tc.of, tc.others, now)).To(Equal(tc.want))
		})
	}
}
