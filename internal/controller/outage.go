// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// reasonRegistryRecovered is the reason of the event that ends an outage.
const reasonRegistryRecovered = "RegistryRecovered"

// outage records a state of the registry that concerns every policy, once: as an event on
// the Lease of the leader. One goroutine uses it.
type outage struct {
	reconciler *Reconciler
	now        func() time.Time

	running  eventContent // the state of the registry; zero while it is usable
	since    time.Time    // when running began
	recorded eventContent // the last event of an outage that has not ended
}

func newOutage(r *Reconciler) *outage {
	return &outage{reconciler: r, now: time.Now} //nolint:forbidigo // the age of an outage
}

// observe looks at the registry and records an event if an outage has lasted OutageDelay, or
// has ended. It returns true if it must be called again after that time.
func (o *outage) observe() (wait time.Duration, again bool) {
	if _, leading := o.reconciler.Terms.running(); !leading {
		o.running = eventContent{} // what a process that does not lead observes means nothing
		return 0, false
	}
	if state := outageOf(o.reconciler.Publisher.Rollout("")); state != o.running {
		o.running, o.since = state, o.now()
	}
	switch o.running {
	case o.recorded:
		return 0, false
	case eventContent{}:
		o.record(eventContent{corev1.EventTypeNormal, reasonRegistryRecovered, "The registry is usable and has a replica again."})
	default:
		if wait = o.reconciler.OutageDelay - o.now().Sub(o.since); wait > 0 {
			return wait, true
		}
		o.record(o.running)
	}
	o.recorded = o.running
	return 0, false
}

func (o *outage) record(event eventContent) {
	if o.reconciler.Lease != nil {
		o.reconciler.recorder.Eventf(o.reconciler.Lease, nil, event.eventType, event.reason, "Publish", "%s", event.message)
	}
}

// outageOf returns the event for a registry in that state; zero if it is usable.
func outageOf(registry plan.Rollout) eventContent {
	switch {
	case !registry.Reachable:
		return eventContent{
			corev1.EventTypeWarning, v1alpha1.ReasonRegistryUnreachable,
			"Redis does not answer, so no policy is published. Replicas keep the plans they run.",
		}
	case registry.OwnedElsewhere:
		return eventContent{
			corev1.EventTypeWarning, v1alpha1.ReasonRegistryOwnedElsewhere,
			"Another installation, or a copy of this one, owns the registry. Nothing is written to it.",
		}
	case !registry.HasReplicas:
		return eventContent{
			corev1.EventTypeWarning, v1alpha1.ReasonNoReplicas, "No replica is alive, so no request is decided.",
		}
	default:
		return eventContent{}
	}
}
