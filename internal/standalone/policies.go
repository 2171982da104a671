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
	"time"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
)

// policyFiles holds the plans compiled from the files of some folders.
type policyFiles struct {
	dirs     []string
	files    map[string]*policyFile // by path
	plans    []*plan.Plan           // of all files, as merge returns them
	revision int64
}

// policyFile holds the plans of a file when it was last valid.
type policyFile struct {
	plans []*plan.Plan
	bytes map[*plan.Plan][]byte // encodings, to detect changes
}

// fileError is one error of a file or folder that failed to load.
type fileError struct {
	path     string
	position policyfile.Position // zero if the error is about the whole file
	err      error
}

func (e *fileError) Error() string {
	separator := ": "
	if e.position != (policyfile.Position{}) {
		separator = ":"
	}
	return e.path + separator + e.inFile()
}

// inFile returns the error without the path, as "12:5: shop/login: ...".
func (e *fileError) inFile() string {
	if e.position == (policyfile.Position{}) {
		return e.err.Error()
	}
	return fmt.Sprintf("%d:%d: %s", e.position.Line, e.position.Column, e.err)
}

func (e *fileError) Unwrap() error { return e.err }

func newPolicyFiles(dirs []string) *policyFiles {
	f := &policyFiles{}
	for _, dir := range dirs {
		f.dirs = append(f.dirs, filepath.Clean(dir)) // as filepath.Dir returns it
	}
	return f
}

// load reads all files. An invalid file keeps its last good plans, and its error is
// returned. The snapshot is nil if nothing changed. Unchanged plans stay the same
// objects.
func (f *policyFiles) load(ctx context.Context) (*plan.Snapshot, []*fileError) {
	paths, errs := f.list()
	files := make(map[string]*policyFile, len(paths))
	for _, path := range paths {
		read, problems := readPolicyFile(ctx, path)
		if len(problems) > 0 {
			errs = append(errs, problems...)
			read = f.files[path]
		}
		if read != nil {
			files[path] = read.reusingPlans(f.files[path])
		}
	}
	if len(errs) > 0 { // keep the plans of a folder that failed to list
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

// list returns the paths of the policy files, folder by folder.
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

// isPolicyFile reports whether the name has a YAML or JSON extension, is not hidden
// and is not a folder. It follows symbolic links, which ConfigMap volumes use.
func isPolicyFile(dir, name string) bool {
	if strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
		return false
	}
	info, err := os.Stat(filepath.Join(dir, name))
	return err != nil || !info.IsDir()
}

// readPolicyFile returns the plans of the file, or all errors with their positions.
func readPolicyFile(ctx context.Context, path string) (read *policyFile, errs []*fileError) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, []*fileError{{path: path, err: errors.Unwrap(err)}} // the fileError has the path
	}
	parsed := policyfile.Parse(ctx, data, policyfile.DefaultNamespace)
	problems := parsed.Problems
	read = &policyFile{bytes: map[*plan.Plan][]byte{}}
	for _, policy := range parsed.Policies {
		compiled, failures := compile.Compile(policy.RateLimitPolicy, compile.Everything(), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
		for _, failure := range failures {
			problems = append(problems, policyfile.Problem{Position: policy.Position(failure.Field), Policy: policy.ID(), Text: failure.Error()})
		}
		if compiled == nil {
			continue
		}
		encoded, err := plan.Encode(compiled)
		if err != nil {
			problems = append(problems, policyfile.Problem{Position: policy.Position(""), Policy: policy.ID(), Text: err.Error()})
			continue
		}
		read.plans = append(read.plans, compiled)
		read.bytes[compiled] = encoded
	}
	slices.SortStableFunc(problems, func(a, b policyfile.Problem) int {
		return cmp.Or(a.Position.Line-b.Position.Line, a.Position.Column-b.Position.Column)
	})
	for i := range problems {
		errs = append(errs, &fileError{path: path, position: problems[i].Position, err: errors.New(problems[i].Message())})
	}
	return read, errs
}

// reusingPlans returns the file with the plan objects of last where they are equal.
func (f *policyFile) reusingPlans(last *policyFile) *policyFile {
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

// merge returns the plans of all files in the order of their IDs. Of two plans with
// the same ID it takes the one from the file that sorts first, and reports the other.
func merge(files map[string]*policyFile) (plans []*plan.Plan, errs []*fileError) {
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	definedIn := map[string]string{}
	for _, path := range paths {
		for _, p := range files[path].plans {
			if other, taken := definedIn[p.ID()]; taken {
				errs = append(errs, &fileError{path: path, err: fmt.Errorf("%s is also defined in %s, which takes precedence", p.ID(), other)})
				continue
			}
			definedIn[p.ID()] = path
			plans = append(plans, p)
		}
	}
	slices.SortFunc(plans, func(a, b *plan.Plan) int { return cmp.Compare(a.ID(), b.ID()) })
	return plans, errs
}
