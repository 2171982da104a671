// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// checksums is the file with the SHA-256 sums of all others, in the format of sha256sum.
const checksums = "SHA256SUMS"

// signature is the signature of the checksums, which the workflow adds after it has built and verified the files.
const signature = checksums + ".sigstore.json"

// platforms are the platforms of a release.
var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// pluginPlatforms are the platforms of kubectl weir, which runs on the machines of operators.
var pluginPlatforms = append(slices.Clone(platforms),
	v1.Platform{OS: "darwin", Architecture: "amd64"}, v1.Platform{OS: "darwin", Architecture: "arm64"},
	v1.Platform{OS: "windows", Architecture: "amd64"})

// files are the files of a release in a folder.
type files struct {
	dir, version string
	repository   string // of the image
}

func (f *files) path(name string) string { return filepath.Join(f.dir, name) }

// layout is the image of all platforms, as an OCI layout in a tar.
func (f *files) layout() string { return f.path("weir-" + f.version + "-oci.tar") }

// chart is the archive of the Helm chart.
func (f *files) chart() string { return f.path("weir-" + f.version + ".tgz") }

// program is the program of one platform, bom its bill of materials (CycloneDX).
func (f *files) program(p v1.Platform) string {
	return f.path(fmt.Sprintf("weir-%s-%s-%s", f.version, p.OS, p.Architecture))
}
func (f *files) bom(p v1.Platform) string { return f.program(p) + ".cdx.json" }

// plugin is the archive of kubectl weir for one platform.
func (f *files) plugin(p v1.Platform) string {
	return f.path(fmt.Sprintf("kubectl-weir-%s-%s-%s.tar.gz", f.version, p.OS, p.Architecture))
}

// pluginProgram is the program in the archive.
func pluginProgram(p v1.Platform) string {
	if p.OS == "windows" {
		return "kubectl-weir.exe"
	}
	return "kubectl-weir"
}

// pluginFiles are the files in the archive. The completion is a shell script.
func pluginFiles(p v1.Platform) []string {
	if p.OS == "windows" {
		return []string{pluginProgram(p), "LICENSE"}
	}
	return []string{pluginProgram(p), "kubectl_complete-weir", "LICENSE"}
}

// krew is the manifest of the plugin for krew.
func (f *files) krew() string { return f.path("weir.krew.yaml") }

// all returns the names of all files except the checksums.
func (f *files) all() []string {
	all := []string{filepath.Base(f.layout()), filepath.Base(f.chart()), filepath.Base(f.krew())}
	for _, p := range platforms {
		all = append(all, filepath.Base(f.program(p)), filepath.Base(f.bom(p)))
	}
	for _, p := range pluginPlatforms {
		all = append(all, filepath.Base(f.plugin(p)))
	}
	return all
}

// unpack writes the regular files of a tar to a folder. It rejects paths outside of it.
func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		if err := root.WriteFile(header.Name, content, 0o644); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
}

// programIn returns the program of an image of Weir.
func programIn(image v1.Image) ([]byte, error) {
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the image has no program weir")
		}
		if err != nil {
			return nil, err
		}
		if header.Name == "weir" {
			return io.ReadAll(r)
		}
	}
}

// packTar writes the files of a folder to a tar, in the order of their names and without times.
func packTar(dir, path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(name), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}
