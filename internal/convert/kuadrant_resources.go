// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/internal/wiring"
)

// The parts of Kuadrant's RateLimitPolicy (kuadrant.io/v1, v1beta3 and v1beta2) that matter here.

type kuadrantPolicy struct {
	*manifest `json:"-"`

	Spec struct {
		TargetRef wiring.TargetRef `json:"targetRef"`
		kuadrantLimits
		Defaults  *kuadrantLimits `json:"defaults"`
		Overrides *kuadrantLimits `json:"overrides"`
	} `json:"spec"`
}

type kuadrantLimits struct {
	Strategy string                   `json:"strategy"`
	When     []kuadrantWhen           `json:"when"`
	Limits   map[string]kuadrantLimit `json:"limits"`
}

type kuadrantLimit struct {
	Rates          []kuadrantRate    `json:"rates"`
	Counters       []kuadrantCounter `json:"counters"`
	When           []kuadrantWhen    `json:"when"`
	RouteSelectors []routeSelector   `json:"routeSelectors"`
}

// kuadrantObjects are the objects of the files.
type kuadrantObjects struct {
	routeObjects

	sources []*kuadrantPolicy
	tokens  []*kuadrantPolicy // TokenRateLimitPolicies
}

const (
	kuadrantGroup   = "kuadrant.io/"
	kuadrantVersion = kuadrantGroup + "v1"
)

// read adds the object, if it matters. unknown is the reason if it is a policy of a version that is not known.
func (o *kuadrantObjects) read(m *manifest) (unknown string, err error) {
	p := &kuadrantPolicy{manifest: m}
	switch id := m.APIVersion + " " + m.Kind; {
	case !strings.HasPrefix(m.APIVersion, kuadrantGroup):
		return "", o.readRoute(m)
	case id == kuadrantVersion+" RateLimitPolicy", id == kuadrantVersion+"beta2 RateLimitPolicy", id == kuadrantVersion+"beta3 RateLimitPolicy":
		o.sources = append(o.sources, p)
	case id == kuadrantVersion+"alpha1 TokenRateLimitPolicy":
		o.tokens = append(o.tokens, p)
	case strings.HasSuffix(m.Kind, "RateLimitPolicy"):
		return fmt.Sprintf("apiVersion %s is not supported, only %s, v1beta3 and v1beta2", m.APIVersion, kuadrantVersion), nil
	default:
		return "", nil
	}
	return "", m.decode(p)
}

// effective returns the limits of the policy, and the path of their field.
func (p *kuadrantPolicy) effective() (limits *kuadrantLimits, field string) {
	switch {
	case p.Spec.Overrides != nil:
		return p.Spec.Overrides, "spec.overrides"
	case p.Spec.Defaults != nil:
		return p.Spec.Defaults, "spec.defaults"
	}
	return &p.Spec.kuadrantLimits, "spec"
}
