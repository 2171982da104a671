// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Volume is a folder that changes like the mounted volume of a Secret or ConfigMap: its files are links into
// a folder, and one rename replaces the link to that folder.
type Volume struct {
	// Dir is the path of the folder.
	Dir string

	tb      testing.TB
	version int
}

// NewVolume returns a volume without files.
func NewVolume(tb testing.TB) *Volume {
	tb.Helper()
	return &Volume{Dir: tb.TempDir(), tb: tb}
}

// Path returns the path of a file.
func (v *Volume) Path(name string) string { return filepath.Join(v.Dir, name) }

// Replace replaces all files at once. Names that are new get a link.
func (v *Volume) Replace(files map[string][]byte) {
	v.tb.Helper()
	v.version++
	version := ".." + strconv.Itoa(v.version)
	v.must(os.Mkdir(v.Path(version), 0o700))
	for name, data := range files {
		v.must(os.WriteFile(filepath.Join(v.Path(version), name), data, 0o600))
		if _, err := os.Lstat(v.Path(name)); os.IsNotExist(err) {
			v.must(os.Symlink(filepath.Join("..data", name), v.Path(name)))
		}
	}
	v.must(os.Symlink(version, v.Path("..next")))
	v.must(os.Rename(v.Path("..next"), v.Path("..data")))
}

func (v *Volume) must(err error) {
	v.tb.Helper()
	if err != nil {
		v.tb.Fatalf("volume: %v", err)
	}
}
