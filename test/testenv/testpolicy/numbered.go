// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testpolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Numbered returns one of many policies, with a host of its own and two limits.
func Numbered(i int) *v1alpha1.RateLimitPolicy {
	return Make(fmt.Sprintf("shop/p%d", i)).
		Match(v1alpha1.Match{Hosts: []string{fmt.Sprintf("h%d.example", i)}, Paths: []string{"/api/*"}}).
		Limit("hourly", v1alpha1.AlgorithmFixedWindow, 1, "1h").
		Limit("burst", v1alpha1.AlgorithmTokenBucket, 10, "1s").Obj()
}

// WriteNumbered writes the first policies into a new folder, one in a file.
func WriteNumbered(tb testing.TB, policies int) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	for i := range policies {
		policy := Numbered(i)
		spec, err := yaml.Marshal(policy.Spec)
		if err != nil {
			tb.Fatal(err)
		}
		text := fmt.Sprintf("apiVersion: %s\nkind: RateLimitPolicy\nmetadata: {name: %s, namespace: %s}\nspec:\n  %s",
			v1alpha1.GroupVersion, policy.Name, policy.Namespace, strings.ReplaceAll(strings.TrimSpace(string(spec)), "\n", "\n  "))
		if err := os.WriteFile(filepath.Join(dir, policy.Name+".yaml"), []byte(text+"\n"), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}
