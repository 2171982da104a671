// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"fmt"
	"io"
	"os"
	"time"
)

// IsTerminal reports whether the writer is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// HasColor reports whether text may be colored: on a terminal, unless NO_COLOR is set.
func HasColor(w io.Writer) bool {
	_, off := os.LookupEnv("NO_COLOR")
	return !off && IsTerminal(w)
}

// progressPeriod is the time between two updates, and before the first one.
const progressPeriod = time.Second

// progressOn returns what shows on a terminal how many lines a command has read, and what removes that in the end.
func progressOn(w io.Writer) (show func(lines int64), remove func()) {
	if !IsTerminal(w) {
		return nil, func() {}
	}
	due := time.Tick(progressPeriod)
	show = func(lines int64) {
		select {
		case <-due:
			_, _ = fmt.Fprintf(w, "\r\x1b[K%d lines", lines)
		default:
		}
	}
	return show, func() { _, _ = fmt.Fprint(w, "\r\x1b[K") }
}
