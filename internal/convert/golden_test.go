// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/validate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type conversion func(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error)

// fileOf returns a file without a name.
func fileOf(data []byte) []convert.File { return []convert.File{{Data: data}} }

// conversions are all conversions by the folder of their golden files.
var conversions = map[string]conversion{
	".": func(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error) {
		return convert.EnvoyRatelimit(ctx, fileOf(data), convert.Options{Namespace: "shop"})
	},
	"ingressnginx": func(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error) {
		return convert.IngressNginx(ctx, fileOf(data), convert.IngressNginxOptions{Namespace: "default", Replicas: 3})
	},
	"limitador": func(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error) {
		return convert.Limitador(ctx, fileOf(data), convert.Options{Namespace: "shop"})
	},
	"kuadrant": func(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error) {
		return convert.Kuadrant(ctx, fileOf(data), convert.KuadrantOptions{Namespace: "default"})
	},
	"envoygateway": func(ctx context.Context, data []byte) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error) {
		policies, _, notes, err := convert.EnvoyGateway(ctx, fileOf(data), convert.EnvoyGatewayOptions{Namespace: "default", Replicas: 3, WeirNamespace: "weir-system", Service: "weir"})
		return policies, notes, err
	},
}

// Each in.yaml converts to the policies and notes of its out.yaml, and the policies are valid.
func TestGolden(t *testing.T) {
	for folder, do := range conversions {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.in.yaml"))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				g := NewWithT(t)
				data, err := os.ReadFile(file)
				g.Expect(err).NotTo(HaveOccurred())
				policies, notes, err := do(t.Context(), data)
				g.Expect(err).NotTo(HaveOccurred())
				var got strings.Builder
				for _, n := range notes {
					fmt.Fprintf(&got, "# %s\n", n)
				}
				g.Expect(convert.Write(&got, policies)).To(Succeed())
				golden := strings.TrimSuffix(file, ".in.yaml") + ".out.yaml"
				if *update {
					g.Expect(os.WriteFile(golden, []byte(got.String()), 0o600)).To(Succeed())
				}
				want, err := os.ReadFile(golden)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.String()).To(Equal(string(want)))
				result := validate.Run(t.Context(), []validate.Source{{Name: golden, Data: want}}, "default")
				g.Expect(result.Count(validate.SeverityError)).To(BeZero(), "%v", result.Findings)
				g.Expect(result.Policies).To(HaveLen(len(policies)))
			})
		}
	}
}
