// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weir-dev/weir/internal/policyfile"
)

// MaxFileBytes is the size of the largest file.
const MaxFileBytes = 8 << 20

// Source is the text of one file.
type Source struct {
	// Name is the path, or "stdin".
	Name string
	Data []byte
}

// Load reads the files at the paths, each once. Of a folder it reads the .yaml, .yml and .json
// files in it and in the folders below, without hidden ones and kustomizations. "-" is stdin.
func Load(paths []string, stdin io.Reader) ([]Source, error) {
	var sources []Source
	var errs []error
	seen := map[string]bool{}
	for _, path := range paths {
		files, err := list(path)
		errs = append(errs, err)
		for _, file := range files {
			if file != "-" {
				file = filepath.Clean(file)
			}
			if seen[file] {
				continue
			}
			seen[file] = true
			source, err := load(file, stdin)
			errs = append(errs, err)
			sources = append(sources, source)
		}
	}
	return sources, errors.Join(errs...)
}

// list returns the file, or the files in the folder.
func list(path string) ([]string, error) {
	if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() {
		return []string{path}, nil
	}
	files, _, problems := policyfile.List(path)
	var errs []error
	for _, problem := range problems {
		errs = append(errs, problem)
	}
	return files, errors.Join(errs...)
}

func load(file string, stdin io.Reader) (Source, error) {
	if file == "-" {
		return read("stdin", stdin)
	}
	opened, err := os.Open(file)
	if err != nil {
		return Source{}, err
	}
	defer func() { _ = opened.Close() }()
	return read(file, opened)
}

func read(name string, from io.Reader) (Source, error) {
	data, err := io.ReadAll(io.LimitReader(from, MaxFileBytes+1))
	switch {
	case err != nil:
		return Source{}, fmt.Errorf("%s: %w", name, ignorePath(err))
	case len(data) > MaxFileBytes:
		return Source{}, fmt.Errorf("%s: is larger than %d MiB; divide it into several files", name, MaxFileBytes>>20)
	}
	return Source{Name: name, Data: data}, nil
}

// ignorePath returns the error without the path that it repeats.
func ignorePath(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
