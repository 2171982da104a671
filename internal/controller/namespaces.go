// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/grant"
)

// grantInterval is the time between two reads of the grants of watched Namespaces.
const grantInterval = 30 * time.Second

// Namespaces are the Namespaces whose policies are enforced. The zero value includes all.
type Namespaces struct {
	// Watched are the only ones, unless it is empty. Permissions in them suffice, since no
	// other Namespace is read.
	Watched []string
	// Excluded are not included. It must be empty with Watched.
	Excluded []string
}

// Validate returns an error if both lists are set, or for an invalid name.
func (n Namespaces) Validate() error {
	if len(n.Watched) > 0 && len(n.Excluded) > 0 {
		return errors.New("choose one")
	}
	for _, name := range slices.Concat(n.Watched, n.Excluded) {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%q: %s", name, strings.Join(problems, "; "))
		}
	}
	return nil
}

// Include reports whether the policies of the Namespace are enforced.
func (n Namespaces) Include(namespace string) bool {
	if len(n.Watched) > 0 {
		return slices.Contains(n.Watched, namespace)
	}
	return !slices.Contains(n.Excluded, namespace)
}

// pollGrants queues the policies of a watched Namespace when its grant has changed, as read
// every grantInterval or by a judgement. It replaces the watch of Namespaces, which a Role
// cannot permit.
func (r *Reconciler) pollGrants(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, namespace := range r.Namespaces.Watched {
			granted, err := grant.Of(ctx, r.client, r.Tenancy, namespace)
			if err != nil {
				log.FromContext(ctx).Error(err, "Failed to read the grant of the Namespace", "namespace", namespace)
				continue
			}
			r.grants.observe(namespace, granted)
		}
	}, grantInterval)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case namespace := <-r.grants.changed:
				metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
				enqueueLowPriority(queue, r.policiesOfNamespace(ctx, metadata)...)
			}
		}
	}()
	return nil
}

// grantTracker notices changes of grants that are read and not watched. Judgements report
// theirs too: a grant that changes and changes back between two polls would leave a policy
// that was judged in between.
type grantTracker struct {
	mu      sync.Mutex
	last    map[string]compile.Grant
	changed chan string // Namespaces
}

// newGrantTracker returns a tracker for a number of Namespaces.
func newGrantTracker(namespaces int) *grantTracker {
	return &grantTracker{last: map[string]compile.Grant{}, changed: make(chan string, namespaces)}
}

// observe records a grant that was read. A nil tracker does nothing.
func (g *grantTracker) observe(namespace string, granted compile.Grant) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.last[namespace]
	if known && !before.Equal(granted) {
		select {
		case g.changed <- namespace:
		default:
			return // full: the next read notices the change again
		}
	}
	g.last[namespace] = granted
}
