// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// List returns the .yaml, .yml and .json files in the folder and in those below, and all these folders, in the order
// of their names. It leaves out hidden ones and kustomizations. Links are followed to files, as in the volume of a
// ConfigMap. A folder that cannot be read is an error, and does not end the search. One below that is removed meanwhile is left out.
func List(folder string) (files, folders []string, errs []*fs.PathError) {
	entries, err := os.ReadDir(folder)
	folders = []string{folder}
	if failure, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, folders, []*fs.PathError{failure}
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		switch {
		case isHidden(path):
		case entry.IsDir():
			filesBelow, foldersBelow, problems := List(path)
			if len(problems) == 1 && problems[0].Path == path && errors.Is(problems[0], fs.ErrNotExist) {
				continue
			}
			files, folders, errs = append(files, filesBelow...), append(folders, foldersBelow...), append(errs, problems...)
		case IsManifest(path):
			files = append(files, path)
		}
	}
	return files, folders, errs
}

func isHidden(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") }

// IsManifest reports whether List would return the file: it may contain policies.
func IsManifest(path string) bool {
	if isHidden(path) {
		return false
	}
	name, extension := filepath.Base(path), filepath.Ext(path)
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, extension) || strings.TrimSuffix(name, extension) == "kustomization" {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || !info.IsDir()
}
