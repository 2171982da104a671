// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/policyfile"
)

// policyFiles holds the records compiled from the files of some folders.
type policyFiles struct {
	dirs     []string
	folders  []string               // dirs and those below, as the last load has found them
	read     map[string]*readFile   // by path, as the last load has read it
	files    map[string]*policyFile // by path
	records  []plan.Record          // of all files, as merge returns them
	revision int64
	snapshot *index.Snapshot // of the last revision
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

// load reads all files, and parses the ones that have changed. An invalid file keeps its last good records, and its error is
// returned. The snapshot is nil if nothing changed. Unchanged records stay the same
// objects.
func (f *policyFiles) load(ctx context.Context) (*index.Snapshot, []*fileError) {
	paths, errs := f.list()
	f.read = f.readAll(ctx, paths)
	files := make(map[string]*policyFile, len(paths))
	for _, path := range paths {
		read := f.read[path]
		if len(read.problems) > 0 {
			errs = append(errs, read.problems...)
			read.policyFile = f.files[path]
		}
		if read.policyFile != nil {
			read.policyFile = read.reusingRecords(f.files[path])
			files[path] = read.policyFile
		}
	}
	if len(errs) > 0 { // keep the records of a folder that failed to list
		for path, last := range f.files {
			if files[path] == nil && slices.ContainsFunc(errs, func(e *fileError) bool { return isBelow(path, e.path) }) {
				files[path] = last
			}
		}
	}
	records, duplicates := merge(files)
	errs = append(errs, duplicates...)
	exceptions, invalid := f.compileExceptions(files, records)
	errs = append(errs, invalid...)
	records = append(records, exceptions...)
	before, isFirst := f.records, f.files == nil
	f.files, f.records = files, records
	if !isFirst && slices.Equal(before, records) {
		return nil, errs
	}
	f.revision++
	f.snapshot = f.snapshot.With(f.revision, changedRecords(before, records))
	return f.snapshot, errs
}

// isBelow reports whether the file is in the folder or in one below it.
func isBelow(file, folder string) bool {
	return strings.HasPrefix(file, strings.TrimSuffix(folder, "/")+"/")
}

// changedRecords returns the records that differ between two lists, by ID; nil stands for a removed one.
func changedRecords(before, after []plan.Record) map[string]plan.Record {
	last := make(map[string]plan.Record, len(before))
	for _, r := range before {
		last[r.ID()] = r
	}
	changed := map[string]plan.Record{}
	for _, r := range after {
		if last[r.ID()] != r {
			changed[r.ID()] = r
		}
		delete(last, r.ID())
	}
	for id := range last {
		changed[id] = nil
	}
	return changed
}

// list returns the paths of the policy files, folder by folder, and sets the folders that they may be in.
func (f *policyFiles) list() (paths []string, errs []*fileError) {
	f.folders = nil
	for _, dir := range f.dirs {
		files, folders, problems := policyfile.List(dir)
		paths, f.folders = append(paths, files...), append(f.folders, folders...)
		for _, problem := range problems {
			errs = append(errs, &fileError{path: problem.Path, err: problem.Err})
		}
	}
	return paths, errs
}

// readFile is a file as it was read.
type readFile struct {
	*policyFile // when it was last valid; nil if it never was

	problems []*fileError
	sum      [sha256.Size]byte
	month    time.Time // in which it was compiled
}

// readAll reads the files, several at a time: to validate one takes more than a millisecond.
func (f *policyFiles) readAll(ctx context.Context, paths []string) map[string]*readFile {
	read := make([]*readFile, len(paths))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		group.Go(func() error {
			read[i] = f.readOne(ctx, path)
			return nil
		})
	}
	_ = group.Wait()
	byPath := make(map[string]*readFile, len(paths))
	for i, path := range paths {
		byPath[path] = read[i]
	}
	return byPath
}

// readOne returns the file as the last load has read it, unless it has changed or another month has begun: plans hold the
// offsets of time zones from the month in which they are compiled. A file that was removed since it was listed has no records.
func (f *policyFiles) readOne(ctx context.Context, path string) *readFile {
	data, err := os.ReadFile(path)
	if err != nil {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return &readFile{}
		}
		return &readFile{problems: []*fileError{{path: path, err: errors.Unwrap(err)}}} // the fileError has the path
	}
	now := time.Now().UTC() //nolint:forbidigo // as in compile
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	sum := sha256.Sum256(data)
	if last := f.read[path]; last != nil && last.sum == sum && last.month.Equal(month) {
		return last
	}
	read := &readFile{sum: sum, month: month}
	read.policyFile, read.problems = parsePolicyFile(ctx, path, data, now)
	return read
}

// parsePolicyFile returns the records of the file, or all errors with their positions.
func parsePolicyFile(ctx context.Context, path string, data []byte, now time.Time) (read *policyFile, errs []*fileError) {
	parsed := policyfile.Parse(ctx, data, policyfile.DefaultNamespace)
	r := &recordReader{problems: parsed.Problems}
	r.policies, r.exceptions = map[string]*v1alpha1.RateLimitPolicy{}, parsed.Exceptions
	for _, policy := range parsed.Policies {
		compiled, failures := compile.Compile(policy.RateLimitPolicy, compile.Everything(), now)
		if r.fail(failures, policy.Problem); compiled != nil {
			r.add(compiled, policy.Problem)
			r.policies[policy.ID()] = policy.RateLimitPolicy
		}
	}
	for _, group := range parsed.KeyGroups {
		compiled, failures := compile.KeyGroup(group.RateLimitKeyGroup)
		if r.fail(failures, group.Problem); compiled != nil {
			r.add(compiled, group.Problem)
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

// problemOf returns a problem of an object.
type problemOf func(field, text string) policyfile.Problem

// fail adds the failures of an object to the problems.
func (r *recordReader) fail(failures field.ErrorList, problem problemOf) {
	for _, failure := range failures {
		r.problems = append(r.problems, problem(failure.Field, failure.Error()))
	}
}

// add adds a record, or a problem if it is too large.
func (r *recordReader) add(record plan.Record, problem problemOf) {
	encoded, err := plan.Encode(record)
	if err != nil {
		r.problems = append(r.problems, problem("", err.Error()))
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
				errs = append(errs, &fileError{path: path, err: fmt.Errorf("%s is also defined in %s: keep one of them", record.ID(), other)})
				continue
			}
			definedIn[record.ID()] = path
			records = append(records, record.Record)
		}
	}
	slices.SortFunc(records, func(a, b plan.Record) int { return cmp.Compare(a.ID(), b.ID()) })
	return records, errs
}
