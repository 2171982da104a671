// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/testenv"
)

// BenchmarkLoad loads policies with two limits and a host of their own, one in a file: first without anything loaded, then
// again without a change.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		dir := b.TempDir()
		for i := range n {
			policy := testenv.MakePolicy(fmt.Sprintf("shop/p%d", i)).
				Match(v1alpha1.Match{Hosts: []string{fmt.Sprintf("h%d.example", i)}, Paths: []string{"/api/*"}}).
				Limit("hourly", v1alpha1.AlgorithmFixedWindow, 1, "1h").
				Limit("burst", v1alpha1.AlgorithmTokenBucket, 10, "1s").Obj()
			policy.APIVersion, policy.Kind = v1alpha1.GroupVersion.String(), "RateLimitPolicy"
			text, err := yaml.Marshal(policy)
			if err != nil {
				b.Fatal(err)
			}
			_, spec, _ := strings.Cut(string(text), "spec:")
			head := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: shop}\nspec:",
				policy.APIVersion, policy.Kind, policy.Name)
			spec, _, _ = strings.Cut(spec, "status:")
			if err := os.WriteFile(filepath.Join(dir, policy.Name+".yaml"), []byte(head+spec), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		files := newPolicyFiles([]string{dir})
		b.Run(fmt.Sprintf("first=%d", n), func(b *testing.B) {
			for b.Loop() {
				files = newPolicyFiles([]string{dir})
				if snapshot, errs := files.load(b.Context()); len(errs) > 0 || len(snapshot.Plans()) != n {
					b.Fatal(errs)
				}
			}
		})
		b.Run(fmt.Sprintf("again=%d", n), func(b *testing.B) {
			for b.Loop() {
				if snapshot, errs := files.load(b.Context()); len(errs) > 0 || snapshot != nil {
					b.Fatal(errs)
				}
			}
		})
	}
}
