// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is a table with aligned columns.
type table struct {
	out        io.Writer
	text       bytes.Buffer
	rows       *tabwriter.Writer
	bold       bool // show the heading in bold
	hasHeading bool
}

func newTable(w io.Writer) *table {
	t := &table{out: w}
	t.rows = tabwriter.NewWriter(&t.text, 0, 0, 3, ' ', 0)
	return t
}

// heading adds the first row.
func (t *table) heading(cells ...string) {
	t.row(cells...)
	t.hasHeading = true
}

// row adds a row. It writes to memory, which does not fail.
func (t *table) row(cells ...string) { _, _ = fmt.Fprintln(t.rows, strings.Join(cells, "\t")) }

// section ends a group of rows with columns of their own. It writes to memory, which does not fail.
func (t *table) section() { _ = t.rows.Flush() }

// Flush writes the table.
func (t *table) Flush() error {
	t.section()
	text := t.text.String()
	if heading, rest, found := strings.Cut(text, "\n"); found && t.bold && t.hasHeading {
		text = "\x1b[1m" + heading + "\x1b[0m\n" + rest
	}
	_, err := io.WriteString(t.out, text)
	return err
}
