// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/validate"
)

// objectDifference is how a key group or an exception of the files differs from the one in the cluster.
type objectDifference struct {
	Object string `json:"object"` // "<kind> <namespace>/<name>"
	difference
}

// IsNew reads the object of the cluster with the name of object into applied. It returns true if the cluster has no such object.
func IsNew(ctx context.Context, c *connect.Connection, resource string, object, applied metav1.Object) (bool, error) {
	objects, err := c.ObjectsOf(resource)
	if err != nil {
		return false, err
	}
	err = connect.Get(ctx, objects.Namespace(object.GetNamespace()), object.GetName(), applied)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// addObjects compares the key groups and exceptions.
func (d *Differences) addObjects(ctx context.Context, c *connect.Connection, files *validate.Result) error {
	for _, g := range files.KeyGroups {
		applied := &v1alpha1.RateLimitKeyGroup{}
		isNew, err := IsNew(ctx, c, "ratelimitkeygroups", g.RateLimitKeyGroup, applied)
		if err != nil {
			return err
		}
		if err := d.addObject(g.Object(), isNew, setOf(&applied.Spec), setOf(&g.Spec)); err != nil {
			return err
		}
	}
	for _, e := range files.Exceptions {
		applied := &v1alpha1.RateLimitException{}
		isNew, err := IsNew(ctx, c, "ratelimitexceptions", e.RateLimitException, applied)
		if err != nil {
			return err
		}
		if err := d.addObject(e.Object(), isNew, &applied.Spec, &e.Spec); err != nil {
			return err
		}
	}
	return nil
}

func (d *Differences) addObject(name string, isNew bool, was, is any) error {
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
func (d *Differences) skipObjects(files *validate.Result) {
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
