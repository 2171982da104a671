// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// krewPlugin is the Plugin of krew.googlecontainertools.github.com/v1alpha2.
type krewPlugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Homepage         string `json:"homepage"`
		Platforms        []struct {
			URI      string `json:"uri"`
			SHA256   string `json:"sha256"`
			Bin      string `json:"bin"`
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			Files []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
		} `json:"platforms"`
	} `json:"spec"`
}

// The manifest has the fields that krew requires, by the rules of its validation.
func TestKrewManifest(t *testing.T) {
	f := files{dir: t.TempDir(), version: "1.2.3"}
	for _, p := range pluginPlatforms {
		check(t, os.WriteFile(f.plugin(p), []byte(p.String()), 0o600))
	}
	check(t, f.writeKrew())
	text, err := os.ReadFile(f.krew())
	check(t, err)
	var plugin krewPlugin
	check(t, yaml.UnmarshalStrict(text, &plugin))
	if plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Kind != "Plugin" || plugin.Metadata.Name != "weir" {
		t.Errorf("%s %s %s", plugin.APIVersion, plugin.Kind, plugin.Metadata.Name)
	}
	if s := plugin.Spec; s.Version != "v1.2.3" || s.Homepage == "" || s.Description == "" || !regexp.MustCompile(`^[^\n]{1,50}$`).MatchString(s.ShortDescription) {
		t.Errorf("%+v", s)
	}
	if len(plugin.Spec.Platforms) != len(pluginPlatforms) {
		t.Fatalf("%d platforms", len(plugin.Spec.Platforms))
	}
	for i, got := range plugin.Spec.Platforms {
		p := pluginPlatforms[i]
		labels := map[string]string{"os": p.OS, "arch": p.Architecture}
		if fmt.Sprint(got.Selector.MatchLabels) != fmt.Sprint(labels) || got.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(p.String()))) {
			t.Errorf("%v: %+v", p, got)
		}
		if got.URI != "https://github.com/weir-dev/weir/releases/download/v1.2.3/"+filepath.Base(f.plugin(p)) {
			t.Errorf("%v: %s", p, got.URI)
		}
		if len(got.Files) != 2 || got.Files[0].From != got.Bin || got.Files[0].To != "." || got.Bin != pluginFiles(p)[0] || got.Files[1].From != "LICENSE" {
			t.Errorf("%v: %+v", p, got)
		}
	}
}
