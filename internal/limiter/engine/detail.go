// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Detail determines how many series the metrics of decisions have.
type Detail string

// The values of Detail.
const (
	// DetailPolicy counts each policy and limit by itself. It is the default.
	DetailPolicy Detail = "Policy"
	// DetailNamespace counts all policies of a Namespace together: the labels policy, limit
	// and field are empty.
	DetailNamespace Detail = "Namespace"
)

// seriesOwner is the policy, or the Namespace, whose decisions are counted together.
type seriesOwner struct {
	namespace string
	policy    string // "" for all policies of the Namespace
}

// owner returns whose series count the decisions of the plan.
func (d Detail) owner(p *plan.Plan) seriesOwner {
	if d == DetailNamespace {
		return seriesOwner{namespace: p.Namespace}
	}
	return seriesOwner{namespace: p.Namespace, policy: p.Name}
}

// labels returns the labels that all series of the owner have.
func (o seriesOwner) labels() prometheus.Labels {
	return prometheus.Labels{"namespace": o.namespace, "policy": o.policy}
}
