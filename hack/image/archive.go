// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeArchive writes the image to a temporary file and renames it when complete.
func writeArchive(path, name string, image v1.Image) (err error) {
	partial := path + ".partial"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial))
		}
	}()
	buffer := bufio.NewWriter(file)
	err = errors.Join(archive(buffer, name, image), buffer.Flush(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// archive writes a tar that is both an OCI image layout (index.json) and a docker save
// archive (manifest.json), for old engines. Both share the blobs.
func archive(to io.Writer, name string, image v1.Image) error {
	w := &archiver{tar: tar.NewWriter(to)}
	w.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	manifest := w.must(image.RawManifest())
	digest, err := image.Digest()
	w.fail(err)
	w.file("index.json", w.must(json.Marshal(v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIManifestSchema1,
			Size:      int64(len(manifest)),
			Digest:    digest,
			Annotations: map[string]string{
				"io.containerd.image.name":          name,
				"org.opencontainers.image.ref.name": tag(name),
			},
		}},
	})))
	w.blob(digest, manifest)
	config, err := image.ConfigName()
	w.fail(err)
	w.blob(config, w.must(image.RawConfigFile()))

	saved := tarball.Descriptor{Config: blobPath(config), RepoTags: []string{name}}
	layers, err := image.Layers()
	w.fail(err)
	for _, layer := range layers {
		digest, err := layer.Digest()
		w.fail(err)
		packed, err := layer.Compressed()
		w.fail(err)
		if w.err != nil {
			return w.err
		}
		w.blob(digest, w.must(io.ReadAll(packed)))
		saved.Layers = append(saved.Layers, blobPath(digest))
	}
	w.file("manifest.json", w.must(json.Marshal(tarball.Manifest{saved})))
	w.fail(w.tar.Close())
	return w.err
}

// tag returns the tag of an image name, "latest" without one.
func tag(name string) string {
	for i := len(name) - 1; i >= 0 && name[i] != '/'; i-- {
		if name[i] == ':' {
			return name[i+1:]
		}
	}
	return "latest"
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// archiver writes files to a tar. After an error it writes nothing and keeps the error.
type archiver struct {
	tar *tar.Writer
	err error
}

func (a *archiver) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *archiver) must(data []byte, err error) []byte {
	a.fail(err)
	return data
}

func (a *archiver) blob(digest v1.Hash, data []byte) { a.file(blobPath(digest), data) }

func (a *archiver) file(name string, data []byte) {
	if a.err != nil {
		return
	}
	a.fail(a.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}))
	if a.err == nil {
		_, err := a.tar.Write(data)
		a.fail(err)
	}
}
