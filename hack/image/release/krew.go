// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// downloads is where the files of a release are published.
const downloads = "https://github.com/weir-dev/weir/releases/download/"

// krewHeader is the manifest up to its platforms, which follow in krewPlatform.
const (
	krewHeader = `# For krew: kubectl krew install --manifest=%s
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: weir
spec:
  version: v%s
  homepage: https://github.com/weir-dev/weir
  shortDescription: Explain, lift and try rate limits of Weir
  description: |
    Lists who is blocked and denied by the RateLimitPolicies of a cluster, explains why, lifts and sets
    blocks, and tries policies before they are applied.
  platforms:
`
	krewPlatform = `  - selector:
      matchLabels: {os: %s, arch: %s}
    uri: %s
    sha256: %s
    bin: %s
    files:
    - {from: %[5]s, to: .}
    - {from: LICENSE, to: .}
`
)

// krewManifest returns the manifest with the checksums of the archives.
func (f *files) krewManifest() ([]byte, error) {
	var text strings.Builder
	fmt.Fprintf(&text, krewHeader, filepath.Base(f.krew()), f.version)
	for _, p := range pluginPlatforms {
		archive, err := os.ReadFile(f.plugin(p))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(archive)
		fmt.Fprintf(&text, krewPlatform, p.OS, p.Architecture,
			downloads+"v"+f.version+"/"+filepath.Base(f.plugin(p)), hex.EncodeToString(sum[:]), pluginProgram(p))
	}
	return []byte(text.String()), nil
}

// writeKrew writes the manifest.
func (f *files) writeKrew() error {
	text, err := f.krewManifest()
	if err != nil {
		return err
	}
	return os.WriteFile(f.krew(), text, 0o644)
}

// verifyKrew verifies that the manifest describes the archives.
func (f *files) verifyKrew() error {
	got, err := os.ReadFile(f.krew())
	if err != nil {
		return err
	}
	want, err := f.krewManifest()
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%s: does not describe the archives", f.krew())
	}
	return err
}
