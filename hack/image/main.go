// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds a container image with one layer from a folder, without an
// engine, a registry or a base image. Builds are reproducible: files belong to root and
// have the time of -created, and other metadata is omitted.
//
// `make image` builds the image of Weir with it, hack/cluster/build.sh the images of the
// test cluster.
//
// Reading order: main.go (flags), layer.go (the layer), archive.go (the archive).
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// spec describes an image.
type spec struct {
	root    string    // folder with its content
	base    bool      // see addBase
	arch    string    // GOARCH
	created time.Time // of the image and of its files
	config  v1.Config
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	s := spec{config: v1.Config{Labels: map[string]string{}}}
	var name, out, created string
	flags.StringVar(&name, "name", "", "image name with tag, such as localhost/weir:1.0.0")
	flags.StringVar(&out, "out", "", "archive to write, for docker load and ctr images import")
	flags.StringVar(&s.root, "root", "", "folder with the content of the image")
	flags.BoolVar(&s.base, "base", false, "add users, CA certificates and /tmp for static programs")
	flags.StringVar(&s.arch, "arch", "amd64", "architecture (GOARCH)")
	flags.StringVar(&created, "created", "", "creation time in RFC 3339 (default: 1970)")
	flags.StringVar(&s.config.User, "user", "65532:65532", "user and group of the process")
	flags.StringVar(&s.config.WorkingDir, "workdir", "/", "working directory")
	flags.Func("entrypoint", "entrypoint: the program or an argument; may be repeated", add(&s.config.Entrypoint))
	flags.Func("cmd", "default argument; may be repeated", add(&s.config.Cmd))
	flags.Func("env", "environment variable NAME=value; may be repeated", add(&s.config.Env))
	flags.Func("label", "label name=value; may be repeated", func(text string) error {
		key, value, found := strings.Cut(text, "=")
		if !found {
			return errors.New("is not name=value")
		}
		s.config.Labels[key] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if name == "" || out == "" || s.root == "" || flags.NArg() > 0 {
		return errors.New("-name, -out and -root are required, without further arguments")
	}
	s.created = time.Unix(0, 0).UTC()
	if created != "" {
		at, err := time.Parse(time.RFC3339, created)
		if err != nil {
			return fmt.Errorf("-created: %w", err)
		}
		s.created = at.UTC()
	}
	image, err := s.build()
	if err != nil {
		return err
	}
	if err := writeArchive(out, name, image); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "%s %s\n", name, digest)
	return err
}

func add(to *[]string) func(string) error {
	return func(text string) error {
		*to = append(*to, text)
		return nil
	}
}

// build returns the image.
func (s *spec) build() (v1.Image, error) {
	layer, err := s.layer()
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: s.created}, CreatedBy: "github.com/weir-dev/weir/hack/image"},
	})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS = s.arch, "linux"
	file.Created = v1.Time{Time: s.created}
	file.Config = s.config
	file.Config.Labels = maps.Clone(s.config.Labels)
	return mutate.ConfigFile(image, file)
}
