// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// pack writes the layout with the images of the archives, and the program of each.
func (f *files) pack(archives []string) (err error) {
	temporary, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()

	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, archive := range archives {
		dir, err := os.MkdirTemp(temporary, "image")
		if err != nil {
			return err
		}
		image, platform, err := readImage(archive, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
		program, err := programIn(image)
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		if err := os.WriteFile(f.program(platform), program, 0o755); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(temporary, "layout")
	if err != nil {
		return err
	}
	// One nested index, so that all platforms have one name: a push sends that index.
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = out.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          f.repository + ":" + f.version,
		"org.opencontainers.image.ref.name": f.version,
	}))
	if err != nil {
		return err
	}
	return packTar(dir, f.layout())
}

// readImage returns the image of an archive of hack/image, unpacked to the folder, and its
// platform.
func readImage(archive, dir string) (v1.Image, v1.Platform, error) {
	if err := unpack(archive, dir); err != nil {
		return nil, v1.Platform{}, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, v1.Platform{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, v1.Platform{}, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, v1.Platform{}, fmt.Errorf("has %d images, want one", len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, v1.Platform{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, v1.Platform{}, err
	}
	return image, v1.Platform{OS: config.OS, Architecture: config.Architecture}, nil
}
