// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
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

// progress shows on a terminal how far a command has got.
type progress struct {
	w       io.Writer
	unit    string
	count   atomic.Int64
	end     chan struct{}
	stopped sync.WaitGroup
}

// progressPeriod is the time between two updates, and before the first one.
const progressPeriod = time.Second

// startProgress shows progress until stop, if the writer is a terminal.
func startProgress(w io.Writer, unit string) *progress {
	p := &progress{w: w, unit: unit, end: make(chan struct{})}
	if IsTerminal(w) {
		p.stopped.Go(p.show)
	}
	return p
}

func (p *progress) set(n int64) { p.count.Store(n) }

func (p *progress) show() {
	every := time.NewTicker(progressPeriod)
	defer every.Stop()
	for {
		select {
		case <-p.end:
			_, _ = fmt.Fprint(p.w, "\r\x1b[K")
			return
		case <-every.C:
			_, _ = fmt.Fprintf(p.w, "\r\x1b[K%d %s", p.count.Load(), p.unit)
		}
	}
}

func (p *progress) stop() {
	close(p.end)
	p.stopped.Wait()
}
