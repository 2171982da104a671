// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bytes"
	"sync"
)

// Log keeps what a server writes while the test reads. Its zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
