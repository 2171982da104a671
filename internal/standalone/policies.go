// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
)

// policyFiles are the plans compiled from the files of some folders.
type policyFiles struct {
	dirs     []string
	files    map[string]*policyFile // by path
	plans    []*plan.Plan           // of all files, as merge returns them
	revision int64
}

// policyFile is what a file last held when it was good.
type policyFile struct {
	plans []*plan.Plan
	bytes map[*plan.Plan][]byte // encodings, to tell what changed
}

// fileError is a file that cannot be used as it is.
type fileError struct {
	path string
	err  error
}

func (e *fileError) Error() string { return e.path + ": " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

func newPolicyFiles(dirs []string) *policyFiles {
	f := &policyFiles{}
	for _, dir := range dirs {
		f.dirs = append(f.dirs, filepath.Clean(dir)) // as filepath.Dir returns it
	}
	return f
}

// load reads all files again. A file that is bad keeps the plans it had when
// it was last good; the errors say which and why. The snapshot is nil when
// nothing changed. Plans that did not change stay the same objects.
func (f *policyFiles) load(ctx context.Context) (*plan.Snapshot, []*fileError) {
	paths, errs := f.list()
	files := make(map[string]*policyFile, len(paths))
	for _, path := range paths {
		read, err := readPolicyFile(ctx, path)
		if err != nil {
			errs = append(errs, &fileError{path: path, err: err})
			read = f.files[path]
		}
		if read != nil {
			files[path] = read.keeping(f.files[path])
		}
	}
	if len(errs) > 0 { // what cannot be listed now may be there again in a moment
		for path, last := range f.files {
			if files[path] == nil && slices.ContainsFunc(errs, func(e *fileError) bool { return e.path == filepath.Dir(path) }) {
				files[path] = last
			}
		}
	}
	plans, duplicates := merge(files)
	errs = append(errs, duplicates...)
	changed := f.files == nil || !slices.Equal(plans, f.plans)
	f.files, f.plans = files, plans
	if !changed {
		return nil, errs
	}
	f.revision++
	return plan.NewSnapshot(f.revision, plans), errs
}

// list returns the policy files of the folders in order.
func (f *policyFiles) list() (paths []string, errs []*fileError) {
	for _, dir := range f.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			errs = append(errs, &fileError{path: dir, err: errors.Unwrap(err)})
		}
		for _, entry := range entries {
			if isPolicyFile(dir, entry.Name()) {
				paths = append(paths, filepath.Join(dir, entry.Name()))
			}
		}
	}
	return paths, errs
}

// isPolicyFile reports whether the name ends like one, is not hidden and does
// not name a folder. Links are followed: that is how volumes of ConfigMaps
// look.
func isPolicyFile(dir, name string) bool {
	if strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
		return false
	}
	info, err := os.Stat(filepath.Join(dir, name))
	return err != nil || !info.IsDir()
}

func readPolicyFile(ctx context.Context, path string) (*policyFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the path is said already
	}
	policies, err := policyfile.Read(ctx, data)
	errs := []error{err}
	file := &policyFile{bytes: map[*plan.Plan][]byte{}}
	for _, policy := range policies {
		compiled, encoded, err := compileWhole(policy)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		file.plans = append(file.plans, compiled)
		file.bytes[compiled] = encoded
	}
	return file, errors.Join(errs...)
}

func compileWhole(policy *v1alpha1.RateLimitPolicy) (*plan.Plan, []byte, error) {
	compiled, problems := compile.Compile(policy, compile.Everything())
	if len(problems) > 0 {
		return nil, nil, fmt.Errorf("%s/%s: %w", policy.Namespace, policy.Name, problems.ToAggregate())
	}
	encoded, err := plan.Encode(compiled)
	return compiled, encoded, err
}

// keeping returns the file with the plans of last where they are equal.
func (f *policyFile) keeping(last *policyFile) *policyFile {
	if last == nil || last == f {
		return f
	}
	kept := &policyFile{bytes: map[*plan.Plan][]byte{}}
	for _, p := range f.plans {
		encoded := f.bytes[p]
		for _, old := range last.plans {
			if bytes.Equal(last.bytes[old], encoded) {
				p = old
			}
		}
		kept.plans = append(kept.plans, p)
		kept.bytes[p] = encoded
	}
	return kept
}

// merge returns the plans of all files in the order of their IDs. Of two plans
// with one ID, the one in the file that sorts first counts.
func merge(files map[string]*policyFile) (plans []*plan.Plan, errs []*fileError) {
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	from := map[string]string{}
	for _, path := range paths {
		for _, p := range files[path].plans {
			if other, taken := from[p.ID()]; taken {
				errs = append(errs, &fileError{path: path, err: fmt.Errorf("%s is also defined in %s, which counts", p.ID(), other)})
				continue
			}
			from[p.ID()] = path
			plans = append(plans, p)
		}
	}
	slices.SortFunc(plans, func(a, b *plan.Plan) int { return cmp.Compare(a.ID(), b.ID()) })
	return plans, errs
}
