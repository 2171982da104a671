// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	strictjson "sigs.k8s.io/json"

	"github.com/weir-dev/weir/internal/wiring"
)

// The parts of Envoy Gateway's BackendTrafficPolicy (gateway.envoyproxy.io/v1alpha1) that matter here.

type trafficPolicy struct {
	*manifest `json:"-"`

	Spec struct {
		TargetRef       *wiring.TargetRef       `json:"targetRef"` // deprecated by targetRefs
		TargetRefs      []wiring.TargetRef      `json:"targetRefs"`
		TargetSelectors []wiring.TargetSelector `json:"targetSelectors"`
		MergeType       string                  `json:"mergeType"`
		RateLimit       json.RawMessage         `json:"rateLimit"`
	} `json:"spec"`

	limits *trafficLimits // nil without rate limits
	// problem is why Envoy Gateway or Envoy rejects the rate limits: the routes of the policy then answer 500.
	problem *fieldProblem
}

// fieldProblem is a problem of a field, by its path in the object.
type fieldProblem struct{ field, text string }

type trafficLimits struct {
	Type   string        `json:"type"` // deprecated: Global or Local, the other is ignored
	Global *trafficRules `json:"global"`
	Local  *trafficRules `json:"local"`
}

type trafficRules struct {
	Rules []trafficRule `json:"rules"`
}

type trafficRule struct {
	ClientSelectors   []clientSelector `json:"clientSelectors"`
	Limit             trafficLimit     `json:"limit"`
	Cost              *trafficCost     `json:"cost"`
	Shared            bool             `json:"shared"`
	ShadowMode        bool             `json:"shadowMode"`
	XRateLimitHeaders string           `json:"xRateLimitHeaders"`
}

type trafficLimit struct {
	Requests     uint32         `json:"requests"`
	Unit         string         `json:"unit"`
	FromMetadata *metadataField `json:"fromMetadata"`
}

type metadataField struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
}

type trafficCost struct {
	Request  *costSource `json:"request"`
	Response *costSource `json:"response"`
}

type costSource struct {
	From     string         `json:"from"`
	Number   *uint64        `json:"number"`
	Metadata *metadataField `json:"metadata"`
}

// clientSelector is an entry of clientSelectors; all its conditions hold for the selected clients.
type clientSelector struct {
	Headers     []valueSelector  `json:"headers"`
	Methods     []methodSelector `json:"methods"`
	Path        *valueSelector   `json:"path"` // without a name
	SourceCIDR  *valueSelector   `json:"sourceCIDR"`
	QueryParams []valueSelector  `json:"queryParams"`
}

type valueSelector struct {
	Type   string  `json:"type"`
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Invert bool    `json:"invert"`
}

type methodSelector struct {
	Value  string `json:"value"`
	Invert bool   `json:"invert"`
}

// seconds returns the length of the window, 0 for an unknown unit.
func (l *trafficLimit) seconds() int64 { return unitSeconds[strings.ToLower(l.Unit)] }

// trafficObjects are the objects of the files.
type trafficObjects struct {
	routeObjects

	policies []*trafficPolicy // the oldest first
	// objects are the routes, Gateways and SecurityPolicies with all their fields.
	objects []*unstructured.Unstructured
}

// read adds the object, if it matters, and returns unknown fields of rate limits.
func (o *trafficObjects) read(m *manifest) (unknown []string, err error) {
	isOfEnvoy := strings.HasPrefix(m.APIVersion, wiring.EnvoyGroup+"/")
	if isOfEnvoy && m.Kind == "SecurityPolicy" || strings.HasPrefix(m.APIVersion, gatewayGroup) {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(m.text); err != nil {
			return nil, m.problem(err)
		}
		object.SetNamespace(m.Namespace)
		o.objects = append(o.objects, object)
	}
	if !isOfEnvoy || m.Kind != "BackendTrafficPolicy" {
		return nil, o.readRoute(m)
	}
	p := &trafficPolicy{manifest: m}
	if err := m.decode(p); err != nil {
		return nil, err
	}
	o.policies = append(o.policies, p)
	return p.readLimits()
}

// readLimits reads the rate limits. The field of an unknown field is in quotes.
func (p *trafficPolicy) readLimits() (unknown []string, err error) {
	if len(p.Spec.RateLimit) == 0 || string(p.Spec.RateLimit) == "null" {
		return nil, nil
	}
	p.limits = &trafficLimits{}
	problems, err := strictjson.UnmarshalStrict(p.Spec.RateLimit, p.limits)
	if err != nil {
		return nil, p.manifest.problem(fmt.Errorf("spec.rateLimit: %w", plain(err)))
	}
	for _, problem := range problems {
		unknown = append(unknown, strings.ReplaceAll(problem.Error(), `field "`, `field "spec.rateLimit.`))
	}
	if p.limits.Type != "" && p.limits.Type != "Local" {
		p.limits.Local = nil
	}
	if p.limits.Type != "" && p.limits.Type != "Global" {
		p.limits.Global = nil
	}
	return unknown, nil
}

// sortPolicies sorts the policies as Envoy Gateway does: the oldest has precedence.
func (o *trafficObjects) sortPolicies() {
	slices.SortStableFunc(o.policies, func(a, b *trafficPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// source is a rule of a policy, or the rule without selectors of local limits, which is the default of the others.
type source struct {
	policy *trafficPolicy
	scope  string // "global" or "local"
	index  int
}

// at returns the path of the rule.
func (s source) at() string { return s.policy.id() + ": " + s.field() }

func (s source) field() string { return fmt.Sprintf("spec.rateLimit.%s.rules[%d]", s.scope, s.index) }

func (s source) rule() *trafficRule {
	if s.scope == "local" {
		return &s.policy.limits.Local.Rules[s.index]
	}
	return &s.policy.limits.Global.Rules[s.index]
}

// isRest reports whether the rule is for the requests that no other local rule selects.
func (s source) isRest() bool { return s.scope == "local" && len(s.rule().ClientSelectors) == 0 }

// isShared reports whether all routes have one counter.
func (s source) isShared() bool { return s.scope == "global" && s.rule().Shared }
