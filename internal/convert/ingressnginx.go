// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// nginxPrefix begins the annotations of ingress-nginx.
const nginxPrefix = "nginx.ingress.kubernetes.io/"

// defaultBurstMultiplier is the default of ingress-nginx.
const defaultBurstMultiplier = 5

// IngressNginxOptions are what the manifests do not contain.
type IngressNginxOptions struct {
	// Namespace is the Namespace of Ingresses without one.
	Namespace string
	// Replicas is the number of pods of the controller: each counts on its own. At least 1.
	Replicas int64
}

// IngressNginx converts the rate limits in the annotations of Ingresses into one policy per
// Ingress. Other objects are skipped.
//
// The controller limits each client address by "limit_req rate=N burst=N*multiplier nodelay", in one
// zone per Ingress: it admits burst+1 requests in one instant and then N per second or minute. That
// is GCRA with a burst of one more. A policy matches the requests that nginx answers by a location of its Ingress.
func IngressNginx(ctx context.Context, files []File, o IngressNginxOptions) ([]*v1alpha1.RateLimitPolicy, []Note, error) {
	c := &nginxConverter{collector: newCollector(), replicas: o.Replicas}
	manifests, err := c.readManifests(files, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range manifests {
		if m.Kind != "Ingress" {
			continue
		}
		ingress := &networkingv1.Ingress{}
		if err := m.decode(ingress); err != nil {
			return nil, nil, err
		}
		ingress.Namespace = m.Namespace
		c.read(m.id(), ingress)
	}
	c.loseSharedBackends()
	c.buildServers()
	for _, i := range c.ingresses {
		c.convert(ctx, i)
	}
	differences := []string{
		fmt.Sprintf("all replicas of Weir share one count; the controller counts per pod, so the limits hold for %d pods (--replicas)", o.Replicas),
		"denied requests get status 429, not limit-req-status-code (503 by default)",
	}
	if slices.ContainsFunc(c.servers, (*nginxServer).limitsUnserved) {
		differences = append(differences, "limits also count requests for paths of a host that no Ingress serves, by the oldest Ingress of the host, as in nginx, which then answers 404")
	}
	return c.finish(differences...)
}

type nginxConverter struct {
	collector
	replicas  int64
	ingresses []*nginxIngress // in the order of the files
	servers   []*nginxServer  // in the order of the controller
}

// nginxIngress is an Ingress with the annotations that decide where its limits apply.
type nginxIngress struct {
	*networkingv1.Ingress
	at            string // begins its notes
	isLimited     bool
	isCanary      bool
	useRegex      bool
	rewriteTarget string
	allowed       []string // networks that are not limited
	isReported    bool     // a note names a location that no policy has
}

// annotation returns the value of the annotation of ingress-nginx.
func (i *nginxIngress) annotation(name string) string { return i.Annotations[nginxPrefix+name] }

// flag returns the value of a boolean annotation. The controller ignores an invalid one.
func (i *nginxIngress) flag(name string) bool {
	set, err := strconv.ParseBool(i.annotation(name))
	return err == nil && set
}

// rewriteTargets are the values of rewrite-target that the controller does not ignore.
var rewriteTargets = regexp.MustCompile(`^[-._~a-zA-Z0-9/:$]*$`)

// read adds the Ingress, unless the controller ignores it because an annotation is invalid.
func (c *nginxConverter) read(at string, ingress *networkingv1.Ingress) {
	i := &nginxIngress{Ingress: ingress, at: at}
	if slices.ContainsFunc(c.ingresses, func(other *nginxIngress) bool { return other.at == at }) {
		c.lose(at, "the files have this Ingress twice; convert only one of them")
		return
	}
	for _, name := range []string{"limit-rps", "limit-rpm", "limit-connections"} {
		text := i.annotation(name)
		n, err := strconv.Atoi(text)
		if err != nil && text != "" {
			c.note(at+": "+name, "%q is not a number: the controller ignores the whole Ingress", text)
			return
		}
		i.isLimited = i.isLimited || n > 0 && name != "limit-connections"
	}
	var err error
	name := "limit-allowlist"
	if i.annotation(name) == "" {
		name = "limit-whitelist" // an alias
	}
	if i.allowed, err = networksOf(i.annotation(name)); err != nil {
		c.lose(at+": "+name, "%s; the controller ignores the whole Ingress", err)
		return
	}
	i.isCanary, i.useRegex = i.flag("canary"), i.flag("use-regex")
	i.rewriteTarget = strings.TrimSpace(i.annotation("rewrite-target"))
	if !rewriteTargets.MatchString(i.rewriteTarget) {
		c.note(at+": rewrite-target", "%q has characters that the controller does not accept: it ignores the annotation", i.rewriteTarget)
		i.rewriteTarget = ""
	}
	c.ingresses = append(c.ingresses, i)
}

// networksOf returns the networks in the annotation.
func networksOf(text string) (networks []string, err error) {
	if text == "" {
		return nil, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		network, err := networkOf(strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(networks, network.String()) {
			networks = append(networks, network.String())
		}
	}
	return networks, nil
}

func networkOf(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return address.Prefix(address.BitLen())
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, fmt.Errorf("%q is not a network", text)
	}
	return network.Masked(), nil
}

// convert adds the policy of the Ingress.
func (c *nginxConverter) convert(ctx context.Context, i *nginxIngress) {
	if i.isCanary {
		if i.isLimited {
			c.note(i.at, "the limits of a canary have no effect: the controller reads them from the main Ingress")
		}
		return
	}
	c.loseOthers(i)
	policy := c.newPolicy(i.Namespace, i.Name)
	if policy.Spec.Limits = c.limits(i); len(policy.Spec.Limits) == 0 {
		return
	}
	policy.Spec.Key = []v1alpha1.KeyPart{wholeAddress()}
	policy.Spec.Overrides = allowlist(i.allowed)
	policy.Spec.Matches = c.matches(i)
	switch {
	case len(policy.Spec.Matches) > 0:
		c.add(ctx, i.at, policy)
	case len(i.Spec.Rules) == 0 && i.Spec.DefaultBackend == nil:
		c.lose(i.at, "has neither rules nor a default backend")
	case !i.isReported:
		c.note(i.at, "its limits have no effect: older Ingresses have all its paths")
	}
}

// loseOthers notes annotations with limits that policies do not have.
func (c *nginxConverter) loseOthers(i *nginxIngress) {
	for _, lost := range []struct{ annotation, reason string }{
		{"limit-connections", "policies count requests, not open connections"},
		{"limit-rate", "policies do not limit bandwidth"},
	} {
		if c.number(i, lost.annotation) > 0 {
			c.lose(i.at+": "+lost.annotation, "%s", lost.reason)
		}
	}
	if n := c.number(i, "global-rate-limit"); n > 0 {
		c.lose(i.at+": global-rate-limit", "add a policy with SlidingWindow and threshold %d, which is not per pod", n)
	}
	for _, name := range []string{"configuration-snippet", "server-snippet"} {
		if text := i.annotation(name); strings.Contains(text, "limit_req") || strings.Contains(text, "limit_conn") {
			c.lose(i.at+": "+name, "directives of nginx are not converted")
		}
	}
}

// nginxZones are the annotations with a rate.
var nginxZones = []struct {
	annotation string
	name       string
	window     v1alpha1.Duration
}{{"limit-rps", "rps", "1s"}, {"limit-rpm", "rpm", "1m"}}

// limits returns the limits of the Ingress that policies can have.
func (c *nginxConverter) limits(i *nginxIngress) (limits []v1alpha1.Limit) {
	if !i.isLimited {
		return nil
	}
	multiplier := int64(defaultBurstMultiplier)
	if _, err := strconv.Atoi(i.annotation("limit-burst-multiplier")); err == nil {
		multiplier = c.number(i, "limit-burst-multiplier")
	}
	for _, zone := range nginxZones {
		n := c.number(i, zone.annotation)
		switch {
		case n == 0:
			continue
		case multiplier == 0:
			c.lose(i.at+": limit-burst-multiplier", "nginx rejects a burst below 1")
			return nil
		case (float64(n)*float64(multiplier)+1)*float64(c.replicas) > plan.MaxThreshold:
			c.lose(i.at+": "+zone.annotation, "a rate of %d with a multiplier of %d for %d pods exceeds the largest threshold, %d",
				n, multiplier, c.replicas, int64(plan.MaxThreshold))
			continue
		}
		limits = append(limits, v1alpha1.Limit{
			Name: zone.name, Algorithm: v1alpha1.AlgorithmGCRA, Threshold: n * c.replicas, Window: zone.window, Burst: new((n*multiplier + 1) * c.replicas),
		})
	}
	return limits
}

// number returns the number in the annotation. Anything but a positive number is ignored, as
// the controller does.
func (c *nginxConverter) number(i *nginxIngress, annotation string) int64 {
	text := i.annotation(annotation)
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < 0) {
		c.note(i.at+": "+annotation, "%q is not a positive number and ignored", text)
		return 0
	}
	return int64(n)
}

// allowlist returns overrides that exempt the networks.
func allowlist(networks []string) (overrides []v1alpha1.Override) {
	for part := range slices.Chunk(networks, 256) {
		name := "allowlist"
		if n := len(overrides); n > 0 {
			name = fmt.Sprintf("allowlist-%d", n+1)
		}
		overrides = append(overrides, v1alpha1.Override{Name: name, CIDRs: part, Action: v1alpha1.OverrideActionAllow})
	}
	return overrides
}

// loseSharedBackends notes canaries with the backend of another Ingress: the controller then takes both for canaries, or
// none, depending on which is older.
func (c *nginxConverter) loseSharedBackends() {
	for _, canary := range c.ingresses {
		for _, main := range c.ingresses {
			if canary.isCanary && !main.isCanary && (canary.isLimited || main.isLimited) && sharesBackend(canary, main) {
				c.lose(canary.at, "a canary with the Service and port of %s may hide its paths or get paths of its own; give it another Service", main.at)
			}
		}
	}
}

func sharesBackend(a, b *nginxIngress) bool {
	of := backendsOf(b)
	return a.Namespace == b.Namespace && slices.ContainsFunc(backendsOf(a), func(backend networkingv1.IngressServiceBackend) bool {
		return slices.Contains(of, backend)
	})
}

func backendsOf(i *nginxIngress) (found []networkingv1.IngressServiceBackend) {
	for _, rule := range i.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, p := range rule.HTTP.Paths {
			if p.Backend.Service != nil {
				found = append(found, *p.Backend.Service)
			}
		}
	}
	return found
}

// compareAge orders Ingresses as the controller does: the oldest first, and equally old ones by name, backwards.
func compareAge(a, b *nginxIngress) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(b.Namespace+"/"+b.Name, a.Namespace+"/"+a.Name),
	)
}

// isOrderKnown reports whether the files contain which of the Ingresses is older.
func isOrderKnown(a, b *nginxIngress) bool {
	return !a.CreationTimestamp.IsZero() && !b.CreationTimestamp.IsZero()
}
