// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// users and groups are as in distroless images.
const (
	users  = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
	groups = "root:x:0:\nnonroot:x:65532:\n"
)

// layer packs the folder into a layer.
func (s *spec) layer() (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	if s.base {
		if err := s.addBase(w); err != nil {
			return nil, err
		}
	}
	// WalkDir uses lexical order, so the result is reproducible.
	err := filepath.WalkDir(s.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == s.root {
			return err
		}
		return s.addFile(w, path, entry)
	})
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// addFile adds the folder, file or link at the path.
func (s *spec) addFile(w *tar.Writer, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	name, err := filepath.Rel(s.root, path)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	switch {
	case info.IsDir():
		return s.add(w, name+"/", tar.TypeDir, mode(info), "", nil)
	case info.Mode().IsRegular():
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return s.add(w, name, tar.TypeReg, mode(info), "", data)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return s.add(w, name, tar.TypeSymlink, 0o777, target, nil)
	default:
		return fmt.Errorf("%s: neither a folder, a file nor a link", path)
	}
}

// mode returns the mode of a file in tar format.
func mode(info fs.FileInfo) int64 {
	bits := int64(info.Mode().Perm())
	if info.Mode()&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// addBase adds the files that static programs may need: users, groups, CA certificates
// and /tmp. The CAs are Mozilla's, in the version of go.mod, without those that
// Mozilla trusts only under conditions, since a file cannot express them.
func (s *spec) addBase(w *tar.Writer) error {
	var cas bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&cas, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		if err := s.add(w, folder, tar.TypeDir, 0o755, "", nil); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"etc/group", []byte(groups)},
		{"etc/passwd", []byte(users)},
		{"etc/ssl/certs/ca-certificates.crt", cas.Bytes()},
	} {
		if err := s.add(w, file.name, tar.TypeReg, 0o644, "", file.data); err != nil {
			return err
		}
	}
	return s.add(w, "tmp/", tar.TypeDir, 0o1777, "", nil)
}

func (s *spec) add(w *tar.Writer, name string, kind byte, mode int64, target string, data []byte) error {
	err := w.WriteHeader(&tar.Header{
		Name: name, Typeflag: kind, Mode: mode, Linkname: target, Size: int64(len(data)), ModTime: s.created,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
