// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/validate"
)

// objectDifference is how a key group or an exception of the files differs from the one in the cluster.
type objectDifference struct {
	Object string `json:"object"` // "<kind> <namespace>/<name>"
	difference
}

// isNew reads the object of the cluster with the name of object into applied. It returns true if the cluster has no such object.
func (c *connection) isNew(ctx context.Context, resource string, object, applied metav1.Object) (bool, error) {
	objects, err := c.objectsOf(resource)
	if err != nil {
		return false, err
	}
	err = get(ctx, objects.Namespace(object.GetNamespace()), object.GetName(), applied)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// addObjects compares the key groups and exceptions.
func (d *differences) addObjects(ctx context.Context, c *connection, files *validate.Result) error {
	for _, g := range files.KeyGroups {
		applied := &v1alpha1.RateLimitKeyGroup{}
		isNew, err := c.isNew(ctx, "ratelimitkeygroups", g.RateLimitKeyGroup, applied)
		if err != nil {
			return err
		}
		if err := d.addObject(g.Object(), isNew, setOf(&applied.Spec), setOf(&g.Spec)); err != nil {
			return err
		}
	}
	for _, e := range files.Exceptions {
		applied := &v1alpha1.RateLimitException{}
		isNew, err := c.isNew(ctx, "ratelimitexceptions", e.RateLimitException, applied)
		if err != nil {
			return err
		}
		if err := d.addObject(e.Object(), isNew, &applied.Spec, &e.Spec); err != nil {
			return err
		}
	}
	return nil
}

func (d *differences) addObject(name string, isNew bool, was, is any) error {
	o := objectDifference{Object: name, difference: difference{New: isNew, Fields: []fieldChange{}}}
	if !isNew {
		fields, err := changedFields(was, is)
		if err != nil {
			return err
		}
		o.Fields = append(o.Fields, fields...)
	}
	d.Objects = append(d.Objects, o)
	return nil
}

// skipObjects names what only a cluster has.
func (d *differences) skipObjects(files *validate.Result) {
	add := func(what string) {
		d.NotCompared = append(d.NotCompared, what+": not compared, because --address reads no cluster")
	}
	for _, p := range files.Policies {
		if b := &p.Spec.Exceptions; b.MaxFactor != nil || b.Actions != nil {
			add(p.ID() + ", spec.exceptions")
		}
	}
	for _, g := range files.KeyGroups {
		add(g.Object())
	}
	for _, e := range files.Exceptions {
		add(e.Object())
	}
}

// keySet is the spec of a key group, whose keys have no order.
type keySet struct {
	Group string          `json:"group"`
	Keys  map[string]bool `json:"keys"`
}

func setOf(spec *v1alpha1.RateLimitKeyGroupSpec) *keySet {
	set := &keySet{Group: spec.Group, Keys: map[string]bool{}}
	for _, key := range spec.Keys {
		set.Keys[key] = true
	}
	return set
}
