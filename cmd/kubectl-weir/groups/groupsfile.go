// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// keyFile is the keys of a file, sorted and distinct.
type keyFile struct {
	keys       []string
	duplicates int
}

// readKeys reads the keys of the file at the path, "-" for stdin. It is CSV if a column is named or if the name ends
// with .csv, else it has a key a line. Empty lines are skipped; spaces around a key do not belong to it.
func readKeys(path, column string, stdin io.Reader) (*keyFile, error) {
	from := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	add := &keyReader{}
	read := add.lines
	if column != "" || filepath.Ext(path) == ".csv" {
		read = func(from io.Reader) error { return add.csv(from, column) }
	}
	if err := read(from); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(add.keys) == 0 {
		return nil, fmt.Errorf("%s: has no keys; to remove a group, delete its RateLimitKeyGroups", path)
	}
	slices.Sort(add.keys)
	distinct := slices.Compact(slices.Clone(add.keys))
	return &keyFile{keys: distinct, duplicates: len(add.keys) - len(distinct)}, nil
}

// keyReader collects keys.
type keyReader struct{ keys []string }

// add adds the key of a line, unless it is empty.
func (r *keyReader) add(line int, key string) error {
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return nil
	case !utf8.ValidString(key):
		return fmt.Errorf("line %d: is not text in UTF-8", line)
	case utf8.RuneCountInString(key) > plan.MaxGroupKey:
		return fmt.Errorf("line %d: the key has %d characters, at most %d are allowed", line, utf8.RuneCountInString(key), plan.MaxGroupKey)
	}
	r.keys = append(r.keys, key)
	return nil
}

func (r *keyReader) lines(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	number := 0
	for lines.Scan() {
		number++
		text := lines.Text()
		if number == 1 {
			text = strings.TrimPrefix(text, "\ufeff") // of an editor
		}
		if err := r.add(number, text); err != nil {
			return err
		}
	}
	return lines.Err()
}

// csv reads the named column, whose name is in the first line, or the only column of a file without names.
func (r *keyReader) csv(from io.Reader, column string) error {
	rows := csv.NewReader(from)
	rows.TrimLeadingSpace = true
	place, isFirst := 0, true
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		first := isFirst
		if isFirst {
			isFirst = false
			row[0] = strings.TrimPrefix(row[0], "\ufeff")
		}
		switch {
		case first && column != "":
			if place = slices.Index(row, column); place < 0 {
				return fmt.Errorf("--column %s: the first line names %s", column, strings.Join(row, ", "))
			}
			continue
		case first && len(row) > 1:
			return fmt.Errorf("has %d columns: name the column of the keys with --column", len(row))
		}
		line, _ := rows.FieldPos(place)
		if err := r.add(line, row[place]); err != nil {
			return err
		}
	}
}
