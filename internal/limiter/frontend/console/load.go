// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"net/http"
	"net/url"
	"sync"
)

// loader loads the parts of a page at the same time.
type loader struct {
	console *Console
	visit   *visit
	wait    sync.WaitGroup

	mu     sync.Mutex
	failed error
}

func (c *Console) newLoader(v *visit) *loader { return &loader{console: c, visit: v} }

// problemText returns the text of the error. It keeps an error that ends the session.
func (l *loader) problemText(err error) string {
	if p, ok := errors.AsType[*problem](err); !ok || p.Status == http.StatusUnauthorized {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failed = err
	}
	return err.Error()
}

// finish waits for all parts. It returns the error of the session, if any.
func (l *loader) finish() error {
	l.wait.Wait()
	return l.failed
}

// part is one part of a page, which may fail without the others.
type part[T any] struct {
	Data T
	// Problem is why there is no data.
	Problem string
}

// load calls get in the background. An error that concerns the session goes to failed, any other
// becomes the part's problem.
func load[T any](l *loader, into *part[T], get func(into *T) error) {
	l.wait.Go(func() {
		if err := get(&into.Data); err != nil {
			into.Problem = l.problemText(err)
		}
	})
}

// fetch loads the answer of the API.
func fetch[T any](l *loader, into *part[T], path string, query url.Values) {
	load(l, into, func(into *T) error { return l.console.get(l.visit.ctx(), l.visit.session, path, query, into) })
}
