// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weir-dev/weir/internal/offline"
)

// Table is a table with aligned columns.
type Table struct {
	out        io.Writer
	text       bytes.Buffer
	rows       *tabwriter.Writer
	bold       bool // show the heading in bold
	HasHeading bool
}

// NewTable returns an empty table, which Flush writes. Its heading is bold where text may be colored.
func NewTable(w io.Writer) *Table {
	t := &Table{out: w, bold: offline.HasColor(w)}
	t.rows = tabwriter.NewWriter(&t.text, 0, 0, 3, ' ', 0)
	return t
}

// Heading adds the first row.
func (t *Table) Heading(cells ...string) {
	t.Row(cells...)
	t.HasHeading = true
}

// Row adds a row. It writes to memory, which does not fail.
func (t *Table) Row(cells ...string) { _, _ = fmt.Fprintln(t.rows, strings.Join(cells, "\t")) }

// Section ends a group of rows with columns of their own. It writes to memory, which does not fail.
func (t *Table) Section() { _ = t.rows.Flush() }

// Flush writes the table.
func (t *Table) Flush() error {
	t.Section()
	text := t.text.String()
	if heading, rest, found := strings.Cut(text, "\n"); found && t.bold && t.HasHeading {
		text = "\x1b[1m" + heading + "\x1b[0m\n" + rest
	}
	_, err := io.WriteString(t.out, text)
	return err
}
