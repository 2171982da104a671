// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// loader loads the parts of a page at the same time.
type loader struct {
	ctx  context.Context //nolint:containedctx // lives as long as the request
	wait sync.WaitGroup

	mu     sync.Mutex
	failed error
}

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
func load[T any](l *loader, into *part[T], get func(ctx context.Context, into *T) error) {
	l.wait.Go(func() {
		if err := get(l.ctx, &into.Data); err != nil {
			into.Problem = l.problemText(err)
		}
	})
}
