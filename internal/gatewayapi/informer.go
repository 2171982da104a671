// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookTimeout bounds one look.
const lookTimeout = 5 * time.Second

// informer has the objects of one kind. The lock of the Cache guards it.
type informer struct {
	kind    kind
	state   availability
	running context.CancelFunc // nil if it does not run
	synced  func() bool
	objects map[types.NamespacedName]client.Object
}

// availability returns what the objects are.
func (i *informer) availability() availability {
	if i.state == readable && (i.running == nil || !i.synced()) {
		return pending
	}
	return i.state
}

// strip drops the metadata that are not used.
func strip(object any) (any, error) {
	o, ok := object.(metav1.Object)
	if !ok {
		return object, nil
	}
	o.SetManagedFields(nil)
	o.SetAnnotations(nil)
	o.SetFinalizers(nil)
	o.SetOwnerReferences(nil)
	return object, nil
}

// look starts the informer of the kind if the API server has it and permits reading, else ends it. An error of
// the API server changes nothing.
func (c *Cache) look(ctx context.Context, k kind, objects cache.Cache, reader client.Reader) {
	state, err := c.availabilityOf(ctx, k, reader)
	if err != nil {
		c.o.Logger.Debug("Failed to discover the kind", "kind", string(k), "error", err)
		return
	}
	c.mu.Lock()
	i := c.kinds[k]
	changed := i.state != state
	i.state = state
	running := i.running != nil
	c.mu.Unlock()
	switch {
	case state == readable && !running:
		if err := c.start(ctx, i, objects); err != nil {
			c.o.Logger.Error("Failed to watch objects of the Gateway API", "kind", string(k), "error", err)
		}
	case state != readable && running:
		c.stop(ctx, i, objects)
	}
	if changed {
		c.o.Logger.Info("Checked access to objects of the Gateway API", "kind", string(k), "state", state.String())
		notify(c.dirty)
	}
}

// String returns the state in a word, for logs.
func (a availability) String() string {
	return map[availability]string{pending: "pending", readable: "readable", absent: "absent", forbidden: "forbidden"}[a]
}

// availabilityOf asks the API server for one object of the kind, in every Namespace that is read.
func (c *Cache) availabilityOf(ctx context.Context, k kind, reader client.Reader) (availability, error) {
	namespaces := c.o.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for _, namespace := range namespaces {
		err := reader.List(ctx, k.newList(), client.InNamespace(namespace), client.Limit(1))
		switch {
		case err == nil:
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			return absent, nil
		case apierrors.IsForbidden(err):
			return forbidden, nil
		default:
			return pending, err
		}
	}
	return readable, nil
}

// start starts the informer.
func (c *Cache) start(ctx context.Context, i *informer, objects cache.Cache) error {
	source, err := objects.GetInformer(ctx, i.kind.newObject(), cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	registration, err := source.AddEventHandler(c.handlerOf(ctx, i))
	if err != nil {
		cancel()
		return err
	}
	c.mu.Lock()
	i.running, i.synced = cancel, registration.HasSynced
	c.mu.Unlock()
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			notify(c.dirty)
		}
	}()
	return nil
}

// handlerOf returns the handler that keeps the objects, until ctx ends.
func (c *Cache) handlerOf(ctx context.Context, i *informer) toolscache.ResourceEventHandler {
	change := func(object any, deleted bool) {
		if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		o, ok := object.(client.Object)
		if !ok {
			return
		}
		name := client.ObjectKeyFromObject(o)
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return
		case deleted:
			delete(i.objects, name)
		default:
			i.objects[name] = o
		}
		notify(c.dirty)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { change(object, false) },
		UpdateFunc: func(_, object any) { change(object, false) },
		DeleteFunc: func(object any) { change(object, true) },
	}
}

// stop ends the informer, and forgets its objects.
func (c *Cache) stop(ctx context.Context, i *informer, objects cache.Cache) {
	if err := objects.RemoveInformer(ctx, i.kind.newObject()); err != nil {
		c.o.Logger.Error("Failed to end a watch", "kind", string(i.kind), "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i.running()
	i.running, i.synced = nil, nil
	clear(i.objects)
}
