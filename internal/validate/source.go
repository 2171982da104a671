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
	"slices"
	"strings"
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
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return sources, nil
}

// list returns the file, or the files in the folder in the order of their names.
func list(path string) (files []string, err error) {
	if path == "-" {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file == path && !entry.IsDir():
			files = append(files, file)
		case entry.IsDir():
			if file != path && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
		case isManifest(file):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

// isManifest reports whether the file in a folder may contain policies. Links are followed to
// files, as in the volume of a ConfigMap.
func isManifest(path string) bool {
	name := filepath.Base(path)
	if strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) ||
		strings.TrimSuffix(name, filepath.Ext(name)) == "kustomization" {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || !info.IsDir()
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
