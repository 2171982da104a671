// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// verify returns the digest of the image. It returns an error unless
//   - the folder has exactly the files of a release, each with its checksum;
//   - the image has all platforms, with correct digests, and the label of the version;
//   - the program of each platform is the one in the image, and its bill of materials lists
//     the modules in the program;
//   - the archives of the plugin have a program for their platform, and the krew manifest has the
//     checksums of these archives.
//
// helm verifies the chart.
func (f *files) verify() (digest v1.Hash, err error) {
	if err := f.verifyChecksums(); err != nil {
		return digest, err
	}
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return digest, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(f.layout(), dir); err != nil {
		return digest, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return digest, err
	}
	if err := validate.Index(index); err != nil {
		return digest, fmt.Errorf("%s: %w", f.layout(), err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return digest, err
	}
	if len(manifest.Manifests) != 1 {
		return digest, fmt.Errorf("%s: has %d images, want one", f.layout(), len(manifest.Manifests))
	}
	digest = manifest.Manifests[0].Digest
	all, err := index.ImageIndex(digest)
	if err != nil {
		return digest, err
	}
	if err := f.verifyImages(all); err != nil {
		return digest, err
	}
	for _, platform := range pluginPlatforms {
		if err := f.verifyPlugin(platform); err != nil {
			return digest, fmt.Errorf("%s: %w", f.plugin(platform), err)
		}
	}
	return digest, f.verifyKrew()
}

// verifyPlugin verifies that the archive has the plugin, for the platform, with its completion and
// license.
func (f *files) verifyPlugin(platform v1.Platform) error {
	file, err := os.Open(f.plugin(platform))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	var names []string
	var program []byte
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Mode != 0o755 {
			return fmt.Errorf("%s has mode %o, want 755", header.Name, header.Mode)
		}
		names = append(names, header.Name)
		if header.Name == pluginProgram(platform) {
			if program, err = io.ReadAll(r); err != nil {
				return err
			}
		}
	}
	if want := pluginFiles(platform); !slices.Equal(names, want) {
		return fmt.Errorf("has the files %q, want %q", names, want)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return err
	}
	return verifyPlatform(info, platform)
}

// verifyPlatform verifies that the program was built for the platform.
func verifyPlatform(info *buildinfo.BuildInfo, platform v1.Platform) error {
	for _, setting := range info.Settings {
		if setting.Key == "GOOS" && setting.Value != platform.OS || setting.Key == "GOARCH" && setting.Value != platform.Architecture {
			return fmt.Errorf("the program is for %s", setting.Value)
		}
	}
	return nil
}

func (f *files) verifyChecksums() error {
	text, err := os.ReadFile(f.path(checksums))
	if err != nil {
		return err
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		sum, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		if !found {
			return fmt.Errorf("%s: unknown line %q", checksums, line)
		}
		content, err := os.ReadFile(f.path(name))
		if err != nil {
			return err
		}
		if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != sum {
			return fmt.Errorf("%s: the checksum does not match", name)
		}
		listed = append(listed, name)
	}
	want := f.all()
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		return fmt.Errorf("%s: lists %q, want %q", checksums, listed, want)
	}
	entries, err := os.ReadDir(f.dir)
	for _, entry := range entries {
		if name := entry.Name(); name != checksums && name != signature && !slices.Contains(want, name) {
			return fmt.Errorf("%s: is not a file of the release", f.path(name))
		}
	}
	return err
}

func (f *files) verifyImages(all v1.ImageIndex) error {
	manifest, err := all.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != len(platforms) {
		return fmt.Errorf("%s: has %d platforms, want %d", f.layout(), len(manifest.Manifests), len(platforms))
	}
	for i, platform := range platforms {
		if got := manifest.Manifests[i].Platform; got == nil || !got.Equals(platform) {
			return fmt.Errorf("%s: platform %d is %v, want %v", f.layout(), i, got, platform)
		}
	}
	for i, platform := range platforms {
		image, err := all.Image(manifest.Manifests[i].Digest)
		if err != nil {
			return err
		}
		if err := f.verifyImage(image, platform); err != nil {
			return fmt.Errorf("%v: %w", platform, err)
		}
	}
	return nil
}

func (f *files) verifyImage(image v1.Image, platform v1.Platform) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != f.version {
		return fmt.Errorf("the image has version %q, want %q", got, f.version)
	}
	if config.OS != platform.OS || config.Architecture != platform.Architecture {
		return fmt.Errorf("the image is for %s/%s", config.OS, config.Architecture)
	}
	packed, err := programIn(image)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(f.program(platform))
	if err != nil {
		return err
	}
	if !bytes.Equal(packed, program) {
		return errors.New("the program is not the one in the image")
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("the program: %w", err)
	}
	if err := verifyPlatform(info, platform); err != nil {
		return err
	}
	return f.verifyBOM(info, platform)
}

// verifyBOM compares the bill of materials with the modules in the program.
func (f *files) verifyBOM(info *buildinfo.BuildInfo, platform v1.Platform) error {
	text, err := os.ReadFile(f.bom(platform))
	if err != nil {
		return err
	}
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		return fmt.Errorf("%s: %w", f.bom(platform), err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Version != "v"+f.version {
		return fmt.Errorf("%s: is %s of version %s, want CycloneDX of v%s", f.bom(platform), bom.BOMFormat, bom.Metadata.Component.Version, f.version)
	}
	got, want := []string{}, []string{"std@" + info.GoVersion}
	for _, component := range bom.Components {
		got = append(got, component.Name+"@"+component.Version)
	}
	for _, module := range info.Deps {
		for module.Replace != nil {
			module = module.Replace
		}
		want = append(want, module.Path+"@"+module.Version)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s: lists the modules %q, the program has %q", f.bom(platform), got, want)
	}
	return nil
}
