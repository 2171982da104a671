// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"io"
	"os"
)

// isTerminal reports whether the writer is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// hasColor reports whether text may be colored: on a terminal, unless NO_COLOR is set.
func hasColor(w io.Writer) bool {
	_, off := os.LookupEnv("NO_COLOR")
	return !off && isTerminal(w)
}
