// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// backendSettings is the connection of Envoy to Weir that the page of Envoy Gateway recommends.
const backendSettings = `
retry:
  numRetries: 3
  retryOn:
    triggers: [connect-failure, refused-stream, reset-before-request]
  perRetry:
    backOff: {baseInterval: 5ms, maxInterval: 100ms}
timeout:
  tcp: {connectTimeout: 250ms}
healthCheck:
  active:
    type: GRPC
    interval: 1s
    timeout: 1s
    unhealthyThreshold: 2
    healthyThreshold: 1
  passive:
    consecutive5XxErrors: 5
    interval: 1s
    baseEjectionTime: 5s
    maxEjectionPercent: 50
http2:
  connectionKeepalive: {interval: 2s, timeout: 1s}
`

// otherWays is what works where another service has the only extAuth.
const otherWays = "let that service, a proxy in front of the application (/v1/authorize) or the application itself (/v1/check) ask Weir"

// wiring makes the manifests of one target.
type wiring struct {
	options   *Options
	found     *Facts
	manifests []Manifest
	notes     []string
}

// Make returns the manifests that let the target ask Weir, and notes on what they leave undone. An error names the object that
// keeps the target from asking Weir.
func Make(o *Options, found *Facts) (manifests []Manifest, notes []string, err error) {
	m := &wiring{options: o, found: found}
	err = m.make()
	return m.manifests, m.notes, err
}

func (m *wiring) add(comment string, object *unstructured.Unstructured) {
	m.manifests = append(m.manifests, Manifest{comment, object})
}

func (m *wiring) note(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// make makes all manifests.
func (m *wiring) make() error {
	if err := m.addPolicy(); err != nil {
		return err
	}
	t := &m.options.Target
	if t.Namespace != m.found.WeirNamespace {
		m.add("Permits the SecurityPolicies of "+t.Namespace+" to reference the Service of Weir.", m.grant())
	}
	for _, namespace := range m.found.Envoys {
		m.add("Weir's NetworkPolicy admits the pods of Envoy by this label.", labelled(namespace))
	}
	return m.addMerges()
}

// addPolicy adds the SecurityPolicy of the target: a new one, or the existing one with the missing fields.
func (m *wiring) addPolicy() error {
	t := &m.options.Target
	for _, object := range m.found.Policies {
		if object.GetNamespace() != t.Namespace {
			continue
		}
		p, err := policyOf(object)
		if err != nil {
			return err
		}
		isOf := slices.Contains(p.TargetRefs, TargetRef{Kind: m.found.Target.GetKind(), Name: t.Name, SectionName: t.Section})
		switch {
		case !isOf && object.GetName() == m.options.Name:
			return fmt.Errorf("--name: SecurityPolicy %s/%s has other targets; choose another name", t.Namespace, m.options.Name)
		case !isOf && p.selects(t.Namespace, m.found.Target):
			return fmt.Errorf("SecurityPolicy %s/%s selects the target by its labels, and only one of two applies: give it targetRefs", t.Namespace, object.GetName())
		case !isOf:
			continue
		case len(p.TargetRefs)+len(p.TargetSelectors) > 1:
			return fmt.Errorf("SecurityPolicy %s/%s has several targets: make one for each, because %s has one value", t.Namespace, object.GetName(), plan.GatewayExtension)
		case p.ExtAuth != nil && !p.asks(t.Namespace, m.found.WeirNamespace, m.found.Service):
			return fmt.Errorf("SecurityPolicy %s/%s sends checks to another service, and extAuth takes one: %s", t.Namespace, object.GetName(), otherWays)
		}
		completed := forApply(object)
		m.add("Sends a check to Weir for each request. The SecurityPolicy exists: its fields are kept.", completed)
		return m.complete(completed)
	}
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"targetRefs": []any{m.targetRef()}}}}
	policy.SetGroupVersionKind(EnvoyVersion.WithKind("SecurityPolicy"))
	policy.SetNamespace(t.Namespace)
	policy.SetName(m.options.Name)
	m.add("Sends a check to Weir for each request.", policy)
	return m.complete(policy)
}

func (m *wiring) targetRef() map[string]any {
	ref := map[string]any{"group": gatewayv1.GroupName, "kind": m.found.Target.GetKind(), "name": m.options.Target.Name}
	if section := m.options.Target.Section; section != "" {
		ref["sectionName"] = section
	}
	return ref
}

// complete adds to the SecurityPolicy the missing fields that call Weir. Flags that are set replace its values.
func (m *wiring) complete(policy *unstructured.Unstructured) error {
	extAuth, _, err := unstructured.NestedMap(policy.Object, "spec", "extAuth")
	if err != nil {
		return err
	}
	if extAuth == nil {
		extAuth = map[string]any{}
	}
	setUnlessSet := func(fields map[string]any, name string, value any, force bool) {
		if _, isSet := fields[name]; !isSet || force {
			fields[name] = value
		}
	}
	setUnlessSet(extAuth, "failOpen", m.options.FailOpen, m.options.Set["fail-open"])
	setUnlessSet(extAuth, "timeout", plan.FormatMillis(m.options.Timeout.Milliseconds()), m.options.Set["timeout"])
	extAuth["includeRouteMetadata"] = true
	grpc, _ := extAuth["grpc"].(map[string]any)
	if grpc == nil {
		grpc = map[string]any{"backendRefs": []any{m.backendRef()}}
	}
	settings := map[string]any{}
	if err := yaml.Unmarshal([]byte(backendSettings), &settings); err != nil {
		return fmt.Errorf("settings of the backend: %w", err)
	}
	setUnlessSet(grpc, "backendSettings", settings, false)
	extAuth["grpc"] = grpc
	if gateway := m.gateway(); gateway != "" {
		extensions, _ := extAuth["contextExtensions"].([]any)
		extensions = slices.DeleteFunc(slices.Clone(extensions), func(e any) bool {
			fields, _ := e.(map[string]any)
			return fields["name"] == plan.GatewayExtension
		})
		extAuth["contextExtensions"] = append(extensions, map[string]any{"name": plan.GatewayExtension, "type": "Value", "value": gateway})
	}
	return unstructured.SetNestedMap(policy.Object, normalized(extAuth), "spec", "extAuth")
}

// normalized returns the fields with the types that unstructured objects have.
func normalized(fields map[string]any) map[string]any {
	text, _ := json.Marshal(fields) //nolint:errchkjson // plain data
	o := &unstructured.Unstructured{}
	_ = json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"Any","fields":`+string(text)+`}`), o) // it was just encoded
	return o.Object["fields"].(map[string]any)
}

func (m *wiring) backendRef() map[string]any {
	ref := map[string]any{"name": m.found.Service, "port": m.found.Port}
	if m.found.WeirNamespace != m.options.Target.Namespace {
		ref["namespace"] = m.found.WeirNamespace
	}
	return ref
}

// gateway returns the value of the context extension: the Gateway of the target, or "" if several or none are possible.
func (m *wiring) gateway() string {
	t := &m.options.Target
	if m.found.Target.GetKind() == plan.TargetGateway {
		name := t.Namespace + "/" + t.Name
		if t.Section != "" {
			name += "/" + t.Section
		}
		return name
	}
	if m.found.Parents == 1 && len(m.found.Gateways) == 1 && m.found.Gateways[0].GetNamespace() == t.Namespace {
		return t.Namespace + "/" + m.found.Gateways[0].GetName()
	}
	m.note("the SecurityPolicy names no Gateway, because the route has several or one of another Namespace: "+
		"policies with the Gateway in targetRefs do not apply to %s; wire the Gateway instead", t.Name)
	return ""
}

// grant returns the ReferenceGrant for the Namespace of the target. It has a name of its own for each Namespace, so that one
// does not replace another.
func (m *wiring) grant() *unstructured.Unstructured {
	namespace := m.options.Target.Namespace
	grant := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"from": []any{map[string]any{"group": EnvoyGroup, "kind": "SecurityPolicy", "namespace": namespace}},
		"to":   []any{map[string]any{"group": "", "kind": "Service", "name": m.found.Service}},
	}}}
	grant.SetGroupVersionKind(GrantVersion.WithKind("ReferenceGrant"))
	grant.SetNamespace(m.found.WeirNamespace)
	grant.SetName(m.found.Service + "-" + namespace)
	return grant
}

// labelled returns the Namespace with the label of clients. To apply it keeps its other labels.
func labelled(namespace string) *unstructured.Unstructured {
	name, value, _ := strings.Cut(ClientLabel, "=")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	o.SetName(namespace)
	o.SetLabels(map[string]string{name: value})
	return o
}

// addMerges adds mergeType to the SecurityPolicies that replace the one of the Gateway for routes. SecurityPolicies of rules never
// merge with the one of their route.
func (m *wiring) addMerges() error {
	if m.found.Target.GetKind() != plan.TargetGateway {
		return m.noteRules()
	}
	for _, object := range m.found.Policies {
		p, err := policyOf(object)
		if err != nil {
			return err
		}
		route := m.routeOf(p, object.GetNamespace())
		name := object.GetNamespace() + "/" + object.GetName()
		switch {
		case route == "":
		case p.asks(object.GetNamespace(), m.found.WeirNamespace, m.found.Service):
			m.note("SecurityPolicy %s sends checks of %s to Weir itself: policies with the Gateway in targetRefs apply only if it names the Gateway", name, route)
		case p.ExtAuth != nil:
			m.note("SecurityPolicy %s sends checks of %s to another service, and extAuth takes one: %s", name, route, otherWays)
		case p.MergeType != "":
		case slices.ContainsFunc(p.TargetRefs, isGateway) || slices.ContainsFunc(p.TargetSelectors, func(s TargetSelector) bool { return s.Kind == plan.TargetGateway }):
			m.note("SecurityPolicy %s replaces the one of the Gateway for %s: split it, because mergeType is for routes only", name, route)
		default:
			merged := forApply(object)
			if err := unstructured.SetNestedField(merged.Object, mergeStrategy, "spec", "mergeType"); err != nil {
				return err
			}
			m.add("Without its mergeType this SecurityPolicy replaces the one of the Gateway for "+route+".", merged)
		}
	}
	return nil
}

// noteRules notes the SecurityPolicies that replace the one of the route for a rule.
func (m *wiring) noteRules() error {
	t := &m.options.Target
	for _, object := range m.found.Policies {
		p, err := policyOf(object)
		if err != nil {
			return err
		}
		for _, other := range p.TargetRefs {
			if object.GetNamespace() == t.Namespace && other.Kind == m.found.Target.GetKind() && other.Name == t.Name && other.SectionName != t.Section && t.Section == "" &&
				!p.asks(t.Namespace, m.found.WeirNamespace, m.found.Service) {
				m.note("SecurityPolicy %s/%s replaces this one for rule %s: kubectl weir wire %s/%s/%s wires it", t.Namespace, object.GetName(), other.SectionName,
					strings.ToLower(m.found.Target.GetKind()), t.Name, other.SectionName)
			}
		}
	}
	return nil
}

func isGateway(t TargetRef) bool { return t.Kind == plan.TargetGateway }

// routeOf returns a route of the Gateway that the SecurityPolicy targets, or "".
func (m *wiring) routeOf(p *securityPolicy, namespace string) string {
	for _, route := range m.found.Routes {
		if p.targets(namespace, route) {
			return route.GetKind() + " " + route.GetNamespace() + "/" + route.GetName()
		}
	}
	return ""
}
