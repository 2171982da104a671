// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build archives

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// built returns the path of hack/image for a platform, which stands for the programs of a release.
func built(t *testing.T, goos, goarch string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "test", "release", goos+"-"+goarch))
	check(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run hack/release-test.sh, which builds it", err)
	}
	return path
}

// archives builds images with hack/image as the program weir, and returns their archives.
func archives(t *testing.T, version string, architectures ...string) (all []string) {
	t.Helper()
	dir := t.TempDir()
	for _, arch := range architectures {
		root := filepath.Join(dir, arch)
		check(t, os.Mkdir(root, 0o755))
		command(t, "cp", built(t, "linux", arch), filepath.Join(root, "weir"))
		out := root + ".tar"
		command(t, built(t, runtime.GOOS, runtime.GOARCH), "-name", "localhost/weir:1", "-root", root, "-out", out, "-arch", arch,
			"-entrypoint", "/weir", "-label", "org.opencontainers.image.version="+version)
		all = append(all, out)
	}
	return all
}

// complete writes the files of a release that other programs write.
func complete(t *testing.T, f files) {
	t.Helper()
	check(t, os.WriteFile(f.chart(), []byte("chart"), 0o600))
	for _, p := range platforms {
		info, err := buildinfo.ReadFile(f.program(p))
		check(t, err)
		type component struct{ Name, Version string }
		components := []component{{"std", info.GoVersion}}
		for _, module := range info.Deps {
			components = append(components, component{module.Path, module.Version})
		}
		if len(components) < 3 {
			t.Fatalf("%s: has modules %v", f.program(p), components)
		}
		text, err := json.Marshal(map[string]any{
			"bomFormat": "CycloneDX", "components": components,
			"metadata": map[string]any{"component": component{"weir", "v" + f.version}},
		})
		check(t, err)
		check(t, os.WriteFile(f.bom(p), text, 0o600))
	}
	for _, p := range pluginPlatforms {
		writePlugin(t, f, p, pluginFiles(p)[1:]...)
	}
	check(t, run([]string{"krew", "-version", f.version, f.dir}, nil))
	sum(t, f)
}

// writePlugin writes the archive of the plugin, with hack/image as the program and further files.
func writePlugin(t *testing.T, f files, p v1.Platform, further ...string) {
	t.Helper()
	dir := t.TempDir()
	command(t, "cp", built(t, p.OS, p.Architecture), filepath.Join(dir, pluginProgram(p)))
	for _, name := range further {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	command(t, "tar", append([]string{"-czf", f.plugin(p), "--mode=755", "-C", dir, pluginProgram(p)}, further...)...)
}

// sum writes the checksums.
func sum(t *testing.T, f files) {
	t.Helper()
	var text strings.Builder
	for _, name := range f.all() {
		content, err := os.ReadFile(f.path(name))
		check(t, err)
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), name)
	}
	check(t, os.WriteFile(f.path(checksums), []byte(text.String()), 0o600))
}

func TestReleaseIsVerified(t *testing.T) {
	f := files{dir: t.TempDir(), version: "1.2.3", repository: "example.com/weir"}
	packed := archives(t, f.version, "amd64", "arm64")
	check(t, run(append([]string{"pack", "-version", f.version, "-repository", f.repository, "-out", f.dir}, packed...), nil))
	complete(t, f)
	var out bytes.Buffer
	check(t, run([]string{"verify", "-version", f.version, f.dir}, &out))
	if !strings.Contains(out.String(), "1.2.3 is complete; the digest of the image is sha256:") {
		t.Error(out.String())
	}

	// As a download of all files of a release has it.
	check(t, os.WriteFile(f.path(signature), []byte("{}"), 0o600))
	check(t, run([]string{"verify", "-version", f.version, f.dir}, &out))

	read := func(path string) string {
		text, err := os.ReadFile(path)
		check(t, err)
		return string(text)
	}
	amd64, arm64 := platforms[0], platforms[1]
	for name, tc := range map[string]struct {
		path  string // of the file that is changed
		to    string
		stale bool // the checksums are not updated
		want  string
	}{
		"a changed chart":      {f.chart(), "other", true, "the checksum does not match"},
		"another program":      {f.program(amd64), read(f.program(arm64)), false, "the program is not the one in the image"},
		"another module":       {f.bom(arm64), strings.Replace(read(f.bom(arm64)), "go-containerregistry", "other", 1), false, "lists the modules"},
		"another version":      {f.bom(amd64), strings.Replace(read(f.bom(amd64)), "v1.2.3", "v1.2.4", 1), false, "CycloneDX of version v1.2.4"},
		"a changed image":      {f.layout(), strings.Replace(read(f.layout()), `"architecture":"arm64"`, `"architecture":"arm65"`, 1), false, "oci.tar"},
		"another plugin":       {f.plugin(amd64), read(f.plugin(arm64)), false, "kubectl-weir-1.2.3-linux-amd64.tar.gz: the program is for arm64"},
		"no archive":           {f.plugin(arm64), "x", false, "kubectl-weir-1.2.3-linux-arm64.tar.gz: "},
		"a file that is extra": {f.path("extra"), "x", true, "extra: is not a file of the release"},
		"another checksum":     {f.krew(), strings.Replace(read(f.krew()), "sha256: ", "sha256: 0", 1), false, "weir.krew.yaml: does not describe the archives"},
		"another download":     {f.krew(), strings.Replace(read(f.krew()), "v1.2.3/", "v1.2.4/", 1), false, "weir.krew.yaml: does not describe the archives"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := os.ReadFile(tc.path)
			existed := err == nil
			check(t, os.WriteFile(tc.path, []byte(tc.to), 0o600))
			if string(before) == tc.to {
				t.Fatal("nothing changed")
			}
			if !tc.stale {
				sum(t, f)
			}
			err = run([]string{"verify", "-version", f.version, f.dir}, &out)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if existed {
				check(t, os.WriteFile(tc.path, before, 0o600))
			} else {
				check(t, os.Remove(tc.path))
			}
			sum(t, f)
		})
	}
	check(t, run([]string{"verify", "-version", f.version, f.dir}, &out))
	if err := run([]string{"verify", "-version", "1.2.4", f.dir}, &out); err == nil {
		t.Error("another version passes")
	}
}

func TestReleaseNeedsAllPlatformsAndTheVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		version       string
		architectures []string
		want          string
	}{
		"one platform":    {"1.2.3", []string{"amd64"}, "has 1 platforms, want 2"},
		"the same twice":  {"1.2.3", []string{"amd64", "amd64"}, "platform 1 is linux/amd64, want linux/arm64"},
		"another version": {"1.2.2", []string{"amd64", "arm64"}, `the image has version "1.2.2", want "1.2.3"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := files{dir: t.TempDir(), version: "1.2.3", repository: "example.com/weir"}
			var packed []string
			for _, arch := range tc.architectures {
				packed = append(packed, archives(t, tc.version, arch)...)
			}
			check(t, f.pack(packed))
			for _, p := range platforms {
				if _, err := os.Stat(f.program(p)); err != nil {
					check(t, os.WriteFile(f.program(p), []byte("none"), 0o600))
				}
				check(t, os.WriteFile(f.bom(p), []byte("{}"), 0o600))
			}
			check(t, os.WriteFile(f.chart(), nil, 0o600))
			for _, p := range pluginPlatforms {
				check(t, os.WriteFile(f.plugin(p), nil, 0o600))
			}
			check(t, f.writeKrew())
			sum(t, f)
			if _, err := f.verify(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestPluginNeedsItsCompletion(t *testing.T) {
	f := files{dir: t.TempDir(), version: "1.2.3"}
	writePlugin(t, f, platforms[0], "README.md")
	if err := f.verifyPlugin(platforms[0]); err == nil || !strings.Contains(err.Error(), `has the files ["kubectl-weir" "README.md"]`) {
		t.Error(err)
	}
}
