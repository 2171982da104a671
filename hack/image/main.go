// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image makes a container image of one layer from a folder, without an
// engine, a registry or a base image. The same folder and flags make the same
// bytes: files belong to root and are as old as -created says, the rest of their
// metadata is left out.
//
// `make image` makes the image of Weir with it, hack/cluster/build.sh those that a
// cluster for the tests needs.
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

// spec is what an image is made of.
type spec struct {
	root    string    // the folder that becomes its root
	base    bool      // with what every program expects to find, see addBase
	arch    string    // as Go calls it
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
	flags.StringVar(&name, "name", "", "the name of the image with its tag, as localhost/weir:1.0.0")
	flags.StringVar(&out, "out", "", "the file to write, a tar for `docker load` and `ctr images import`")
	flags.StringVar(&s.root, "root", "", "the folder whose content is the image's")
	flags.BoolVar(&s.base, "base", false, "add users, certificate authorities and /tmp, as static programs expect them")
	flags.StringVar(&s.arch, "arch", "amd64", "the architecture of the programs in it")
	flags.StringVar(&created, "created", "", "when it was made, in RFC 3339; otherwise 1970")
	flags.StringVar(&s.config.User, "user", "65532:65532", "the user and group it runs as")
	flags.StringVar(&s.config.WorkingDir, "workdir", "/", "the folder it runs in")
	flags.Func("entrypoint", "the program, or one of its first arguments; may be repeated", add(&s.config.Entrypoint))
	flags.Func("cmd", "an argument that who runs it may replace; may be repeated", add(&s.config.Cmd))
	flags.Func("env", "NAME=value; may be repeated", add(&s.config.Env))
	flags.Func("label", "name=value; may be repeated", func(text string) error {
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
		return errors.New("-name, -out and -root are needed, and no arguments")
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
