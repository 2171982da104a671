// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release packs and verifies the files of a release. hack/release.sh runs it.
//
//	release pack -version V -out DIR ARCHIVE...   pack images and their programs into DIR
//	release krew -version V DIR                   write the krew manifest of the plugins in DIR
//	release verify -version V DIR                 verify all files in DIR
//
// Reading order: main.go (flags), files.go (the files of a release), pack.go (the image and
// its programs), krew.go (the manifest of the plugin), verify.go (all files).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want pack, krew or verify")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	r := files{}
	flags.StringVar(&r.version, "version", "", "version of the release")
	switch args[0] {
	case "pack":
		flags.StringVar(&r.dir, "out", "", "folder of the release")
		flags.StringVar(&r.repository, "repository", "", "name of the image, without a tag")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if r.version == "" || r.dir == "" || r.repository == "" || flags.NArg() == 0 {
			return errors.New("-version, -out, -repository and archives are required")
		}
		return r.pack(flags.Args())
	case "krew", "verify":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if r.version == "" || flags.NArg() != 1 {
			return errors.New("-version and a folder are required")
		}
		r.dir = flags.Arg(0)
		if args[0] == "krew" {
			return r.writeKrew()
		}
		digest, err := r.verify()
		if err == nil {
			_, err = fmt.Fprintf(out, "release: %s is complete; the digest of the image is %s\n", r.version, digest)
		}
		return err
	default:
		return fmt.Errorf("%q: want pack, krew or verify", args[0])
	}
}
