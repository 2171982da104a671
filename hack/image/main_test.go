// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// makeImage makes an image of one program and returns the path of the archive.
func makeImage(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	check(t, os.Mkdir(root, 0o755))
	check(t, os.WriteFile(filepath.Join(root, "program"), []byte("binary"), 0o755))
	out := filepath.Join(dir, "image.tar")
	check(t, run(append([]string{
		"-name", "localhost/program:1", "-out", out, "-root", root, "-base", "-arch", "arm64",
		"-created", "2026-01-02T03:04:05+01:00", "-label", "org.opencontainers.image.title=Program",
		"-entrypoint", "/program", "-cmd", "serve", "-env", "A=b",
	}, args...)))
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The docker save archive and the OCI layout hold the same image.
func TestArchiveHasBothForms(t *testing.T) {
	path := makeImage(t)
	saved, err := tarball.ImageFromPath(path, nil)
	check(t, err)
	check(t, validate.Image(saved))
	index, err := layout.ImageIndexFromPath(unpack(t, path))
	check(t, err)
	check(t, validate.Index(index))

	manifest, err := index.IndexManifest()
	check(t, err)
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "localhost/program:1" {
		t.Errorf("the name in the index is %q", got)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	check(t, err)
	one, err := image.ConfigName()
	check(t, err)
	other, err := saved.ConfigName()
	check(t, err)
	if one != other {
		t.Errorf("the OCI layout has %s, the form of docker save has %s", one, other)
	}
	checkConfig(t, image)
	checkFiles(t, image)
}

func TestBuildIsReproducible(t *testing.T) {
	one, err := os.ReadFile(makeImage(t))
	check(t, err)
	other, err := os.ReadFile(makeImage(t))
	check(t, err)
	if string(one) != string(other) {
		t.Error("two archives differ")
	}
}

// `make image` and the Dockerfile set the same labels.
func TestLabelsAreThoseOfTheDockerfile(t *testing.T) {
	docker, made := labels(t, "../../Dockerfile"), labels(t, "../../Makefile")
	if len(docker) == 0 || !slices.Equal(docker, made) {
		t.Errorf("the Dockerfile has  %q\nthe Makefile has %q", docker, made)
	}
}

// A tag can be moved, a digest cannot.
func TestBaseImagesHaveDigests(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	check(t, err)
	bases := regexp.MustCompile(`(?m)^FROM (.*)$`).FindAllString(string(text), -1)
	if len(bases) != 2 {
		t.Errorf("found %q", bases)
	}
	for _, base := range bases {
		if !regexp.MustCompile(`@sha256:[0-9a-f]{64}( AS build)?$`).MatchString(base) {
			t.Errorf("%s: has no digest", base)
		}
	}
}

// labels finds name="value" of images in a file. A variable looks different in make.
func labels(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	found := regexp.MustCompile(`org\.opencontainers\.image\.\w+="[^"]*"`).FindAllString(string(text), -1)
	for i := range found {
		found[i] = strings.NewReplacer("(", "", ")", "").Replace(found[i])
	}
	slices.Sort(found)
	return found
}

func checkConfig(t *testing.T, image v1.Image) {
	t.Helper()
	file, err := image.ConfigFile()
	check(t, err)
	got := strings.Join([]string{
		file.OS, file.Architecture, file.Config.User, strings.Join(file.Config.Entrypoint, ","),
		strings.Join(file.Config.Cmd, ","), strings.Join(file.Config.Env, ","),
		file.Config.Labels["org.opencontainers.image.title"], file.Created.String(),
	}, " ")
	want := "linux arm64 65532:65532 /program serve A=b Program 2026-01-02 02:04:05 +0000 UTC"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func checkFiles(t *testing.T, image v1.Image) {
	t.Helper()
	modes := map[string]int64{}
	r := tar.NewReader(mutate.Extract(image))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		modes[strings.TrimSuffix(header.Name, "/")] = header.Mode
		if header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", header.Name, header.Uid, header.Gid)
		}
	}
	for name, want := range map[string]int64{
		"program": 0o755, "tmp": 0o1777, "etc/passwd": 0o644, "etc/group": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644,
	} {
		if got, found := modes[name]; !found || got != want {
			t.Errorf("%s: mode %o, want %o (found: %v)", name, got, want, found)
		}
	}
}

// unpack unpacks an archive and returns the folder.
func unpack(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	check(t, err)
	defer file.Close()
	dir := t.TempDir()
	r := tar.NewReader(file)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		check(t, err)
		data, err := io.ReadAll(r)
		check(t, err)
		to := filepath.Join(dir, filepath.FromSlash(header.Name))
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		check(t, os.WriteFile(to, data, 0o644))
	}
}
