// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
)

// policyFiles holds the records compiled from the files of some folders.
type policyFiles struct {
	dirs     []string
	files    map[string]*policyFile // by path
	records  []plan.Record          // of all files, as merge returns them
	revision int64
}

// policyFile holds the records of a file when it was last valid. Exceptions are compiled with the policies of all files.
type policyFile struct {
	records    []encodedRecord
	policies   map[string]*v1alpha1.RateLimitPolicy // by ID
	exceptions []*policyfile.Exception
}

// encodedRecord is a record with its encoding, to detect changes.
type encodedRecord struct {
	plan.Record
	encoding string
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

// load reads all files. An invalid file keeps its last good records, and its error is
// returned. The snapshot is nil if nothing changed. Unchanged records stay the same
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
			files[path] = read.reusingRecords(f.files[path])
		}
	}
	if len(errs) > 0 { // keep the records of a folder that failed to list
		for path, last := range f.files {
			if files[path] == nil && slices.ContainsFunc(errs, func(e *fileError) bool { return e.path == filepath.Dir(path) }) {
				files[path] = last
			}
		}
	}
	records, duplicates := merge(files)
	errs = append(errs, duplicates...)
	exceptions, invalid := f.compileExceptions(files, records)
	errs = append(errs, invalid...)
	records = append(records, exceptions...)
	changed := f.files == nil || !slices.Equal(records, f.records)
	f.files, f.records = files, records
	if !changed {
		return nil, errs
	}
	f.revision++
	return plan.NewSnapshotOf(f.revision, records), errs
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

// readPolicyFile returns the records of the file, or all errors with their positions.
func readPolicyFile(ctx context.Context, path string) (read *policyFile, errs []*fileError) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, []*fileError{{path: path, err: errors.Unwrap(err)}} // the fileError has the path
	}
	parsed := policyfile.Parse(ctx, data, policyfile.DefaultNamespace)
	r := &recordReader{problems: parsed.Problems}
	r.policies, r.exceptions = map[string]*v1alpha1.RateLimitPolicy{}, parsed.Exceptions
	for _, policy := range parsed.Policies {
		compiled, failures := compile.Compile(policy.RateLimitPolicy, compile.Everything(), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
		at := policyfile.Problem{Policy: policy.ID()}
		if r.fail(failures, policy.Position, at); compiled != nil {
			r.add(compiled, policy.Position, at)
			r.policies[policy.ID()] = policy.RateLimitPolicy
		}
	}
	for _, group := range parsed.KeyGroups {
		compiled, failures := compile.KeyGroup(group.RateLimitKeyGroup)
		at := policyfile.Problem{Object: group.Object()}
		if r.fail(failures, group.Position, at); compiled != nil {
			r.add(compiled, group.Position, at)
		}
	}
	slices.SortStableFunc(r.problems, func(a, b policyfile.Problem) int {
		return cmp.Or(a.Position.Line-b.Position.Line, a.Position.Column-b.Position.Column)
	})
	for i := range r.problems {
		errs = append(errs, &fileError{path: path, position: r.problems[i].Position, err: errors.New(r.problems[i].Message())})
	}
	return &r.policyFile, errs
}

// recordReader collects the records and the problems of one file.
type recordReader struct {
	policyFile
	problems []policyfile.Problem
}

// fail adds the failures of an object to the problems; at names the object.
func (r *recordReader) fail(failures field.ErrorList, position func(field string) policyfile.Position, at policyfile.Problem) {
	for _, failure := range failures {
		at.Position, at.Text = position(failure.Field), failure.Error()
		r.problems = append(r.problems, at)
	}
}

// add adds a record, or a problem if it is too large.
func (r *recordReader) add(record plan.Record, position func(field string) policyfile.Position, at policyfile.Problem) {
	encoded, err := plan.Encode(record)
	if err != nil {
		at.Position, at.Text = position(""), err.Error()
		r.problems = append(r.problems, at)
		return
	}
	r.records = append(r.records, encodedRecord{record, string(encoded)})
}

// reusingRecords returns the file with the record objects of last where they are equal.
func (f *policyFile) reusingRecords(last *policyFile) *policyFile {
	if last == nil || last == f {
		return f
	}
	old := make(map[string]encodedRecord, len(last.records))
	for _, record := range last.records {
		old[record.encoding] = record
	}
	kept := &policyFile{policies: f.policies, exceptions: f.exceptions}
	for _, record := range f.records {
		if same, found := old[record.encoding]; found {
			record = same
		}
		kept.records = append(kept.records, record)
	}
	return kept
}

// merge returns the records of all files in the order of their IDs. Of two records with
// the same ID it takes the one from the file that sorts first, and reports the other.
func merge(files map[string]*policyFile) (records []plan.Record, errs []*fileError) {
	definedIn := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for _, record := range files[path].records {
			if other, taken := definedIn[record.ID()]; taken {
				errs = append(errs, &fileError{path: path, err: fmt.Errorf("%s is also defined in %s, which takes precedence", record.ID(), other)})
				continue
			}
			definedIn[record.ID()] = path
			records = append(records, record.Record)
		}
	}
	slices.SortFunc(records, func(a, b plan.Record) int { return cmp.Compare(a.ID(), b.ID()) })
	return records, errs
}
