// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
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
// is GCRA with a burst of one more. Paths of other Ingresses that nginx would prefer are excluded.
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
		if err := json.Unmarshal(m.text, ingress); err != nil {
			return nil, nil, m.problem(err)
		}
		ingress.Namespace = m.Namespace
		c.locations = append(c.locations, locationsOf(ingress)...)
		c.ingresses = append(c.ingresses, ingress)
	}
	for _, ingress := range c.ingresses {
		c.convert(ctx, ingress)
	}
	return c.finish(
		fmt.Sprintf("all replicas of Weir share one count; the controller counts per pod, so the limits hold for %d pods (--replicas)", o.Replicas),
		"denied requests get status 429, not limit-req-status-code (503 by default)",
	)
}

type nginxConverter struct {
	collector
	replicas  int64
	ingresses []*networkingv1.Ingress
	locations []location
}

// location is one path of one host.
type location struct {
	ingress    *networkingv1.Ingress
	host, path string
	exact      bool
	segments   bool // a prefix of whole segments
	regex      bool
}

// locationsOf returns the locations of the Ingress. Its default backend is all of "/".
func locationsOf(ingress *networkingv1.Ingress) (found []location) {
	annotations := ingress.Annotations
	regex := annotations[nginxPrefix+"use-regex"] == "true" || annotations[nginxPrefix+"rewrite-target"] != ""
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			found = append(found, location{ingress: ingress, host: rule.Host, path: "/"})
			continue
		}
		for _, p := range rule.HTTP.Paths {
			kind := networkingv1.PathTypeImplementationSpecific
			if p.PathType != nil {
				kind = *p.PathType
			}
			l := location{ingress: ingress, host: rule.Host, path: cmp.Or(p.Path, "/")}
			l.regex = regex && kind != networkingv1.PathTypeExact && l.path != "/"
			l.exact = kind == networkingv1.PathTypeExact
			l.segments = kind == networkingv1.PathTypePrefix
			found = append(found, l)
		}
	}
	if len(ingress.Spec.Rules) == 0 && ingress.Spec.DefaultBackend != nil {
		found = append(found, location{ingress: ingress, path: "/"})
	}
	return found
}

// nginxZones are the annotations with a rate.
var nginxZones = []struct {
	annotation string
	name       string
	window     v1alpha1.Duration
}{{"limit-rps", "rps", "1s"}, {"limit-rpm", "rpm", "1m"}}

func (c *nginxConverter) convert(ctx context.Context, ingress *networkingv1.Ingress) {
	at := "Ingress " + ingress.Namespace + "/" + ingress.Name
	for _, lost := range []struct{ annotation, reason string }{
		{"limit-connections", "policies count requests, not open connections"},
		{"limit-rate", "policies do not limit bandwidth"},
	} {
		if c.number(at, ingress, lost.annotation) > 0 {
			c.lose(at+": "+lost.annotation, "%s", lost.reason)
		}
	}
	if n := c.number(at, ingress, "global-rate-limit"); n > 0 {
		c.lose(at+": global-rate-limit", "add a policy with SlidingWindow and threshold %d, which is not per pod", n)
	}
	policy := c.newPolicy(ingress.Namespace, ingress.Name)
	multiplier := cmp.Or(c.number(at, ingress, "limit-burst-multiplier"), defaultBurstMultiplier)
	for _, zone := range nginxZones {
		n := c.number(at, ingress, zone.annotation)
		if n == 0 {
			continue
		}
		rate, burst := n*c.replicas, (n*multiplier+1)*c.replicas
		if max(rate, burst) > plan.MaxThreshold {
			c.lose(at+": "+zone.annotation, "a rate of %d with a burst of %d exceeds the largest threshold, %d", rate, burst, int64(plan.MaxThreshold))
			continue
		}
		policy.Spec.Limits = append(policy.Spec.Limits, v1alpha1.Limit{
			Name: zone.name, Algorithm: v1alpha1.AlgorithmGCRA, Threshold: rate, Window: zone.window, Burst: new(burst),
		})
	}
	if len(policy.Spec.Limits) == 0 {
		return
	}
	policy.Spec.Key = []v1alpha1.KeyPart{{
		Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{IPv6PrefixLength: new(int32(128))},
	}}
	var err error
	if policy.Spec.Overrides, err = allowlist(ingress); err != nil {
		c.lose(at+": limit-whitelist", "%s", err)
		return
	}
	if policy.Spec.Matches = c.matches(at, ingress); len(policy.Spec.Matches) == 0 {
		c.lose(at, "has neither rules nor a default backend")
		return
	}
	c.add(ctx, at, policy)
}

// number returns the number in the annotation. Anything but a positive number is ignored, as
// the controller does.
func (c *nginxConverter) number(at string, ingress *networkingv1.Ingress, annotation string) int64 {
	text, set := ingress.Annotations[nginxPrefix+annotation]
	n, err := strconv.ParseInt(text, 10, 32)
	if set && (err != nil || n < 0) {
		c.note(at+": "+annotation, "%q is not a number and ignored", text)
		return 0
	}
	return n
}

// allowlist returns overrides that exempt the networks in the annotation.
func allowlist(ingress *networkingv1.Ingress) (overrides []v1alpha1.Override, err error) {
	text := cmp.Or(ingress.Annotations[nginxPrefix+"limit-whitelist"], ingress.Annotations[nginxPrefix+"limit-allowlist"])
	var networks []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		network, err := networkOf(entry)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(networks, network.String()) {
			networks = append(networks, network.String())
		}
	}
	for part := range slices.Chunk(networks, 256) {
		name := "allowlist"
		if n := len(overrides); n > 0 {
			name = fmt.Sprintf("allowlist-%d", n+1)
		}
		overrides = append(overrides, v1alpha1.Override{Name: name, CIDRs: part, Action: v1alpha1.OverrideActionAllow})
	}
	return overrides, nil
}

func networkOf(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Prefix(address.BitLen())
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, fmt.Errorf("%q is not a network", text)
	}
	return network.Masked(), nil
}

// matches returns one match for the paths of each host, and one for each path that needs an
// expression.
func (c *nginxConverter) matches(at string, ingress *networkingv1.Ingress) (matches []v1alpha1.Match) {
	aliases := c.aliases(at, ingress)
	for _, l := range c.locations {
		if l.ingress != ingress {
			continue
		}
		m := v1alpha1.Match{When: c.condition(&l)}
		if l.host != "" {
			m.Hosts = []string{strings.ToLower(l.host)}
			if l.host == ingress.Spec.Rules[0].Host {
				m.Hosts = append(m.Hosts, aliases...)
			}
		}
		if !l.regex {
			m.Paths = l.patterns()
		}
		last := len(matches) - 1
		if last >= 0 && matches[last].When == m.When && slices.Equal(matches[last].Hosts, m.Hosts) && len(m.Paths) > 0 && len(matches[last].Paths) > 0 {
			matches[last].Paths = append(matches[last].Paths, m.Paths...)
			continue
		}
		matches = append(matches, m)
	}
	return matches
}

// patterns returns the paths of the location as a policy matches them.
func (l *location) patterns() []string {
	path := strings.TrimSuffix(l.path, "/")
	switch {
	case l.exact:
		return []string{l.path}
	case path == "":
		return []string{"/*"}
	case l.segments:
		return []string{path, path + "/*"}
	}
	return []string{l.path + "*"}
}

// condition returns the expression for what hosts and paths of a match cannot contain.
func (c *nginxConverter) condition(l *location) string {
	var conditions []string
	if l.regex {
		conditions = append(conditions, "request.path.matches("+strconv.Quote("(?i)^"+strings.TrimPrefix(l.path, "^"))+")")
	}
	return allOf(append(conditions, c.exclusions(l)...))
}

// exclusions returns conditions that are false for the locations of other Ingresses that nginx
// prefers: exact hosts over wildcards, and longer paths over shorter ones.
func (c *nginxConverter) exclusions(l *location) (conditions []string) {
	var hosts []string
	for _, other := range c.locations {
		switch {
		case other.ingress == l.ingress || l.exact:
		case other.host != l.host && prefersHost(other.host, l.host):
			hosts = append(hosts, other.host)
		case other.host == l.host && other.isWithin(l):
			conditions = append(conditions, other.exclusion())
		}
	}
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		if suffix, wildcard := strings.CutPrefix(host, "*"); wildcard {
			conditions = append(conditions, "!request.host.endsWith("+strconv.Quote(suffix)+")")
		} else {
			conditions = append(conditions, "request.host != "+strconv.Quote(host))
		}
	}
	slices.Sort(conditions)
	return slices.Compact(conditions)
}

// isWithin reports whether the location has a longer path that begins with the path of the other one.
// Regular expressions are not compared.
func (l *location) isWithin(outer *location) bool {
	return !l.regex && !outer.regex && len(l.path) > len(outer.path) && strings.HasPrefix(l.path, outer.path)
}

// prefersHost reports whether nginx prefers the first host for some requests of the second.
func prefersHost(host, over string) bool {
	suffix, wildcard := strings.CutPrefix(over, "*")
	return host != "" && (over == "" || wildcard && strings.HasSuffix(host, suffix))
}

// exclusion returns a condition that is false for the path.
func (l *location) exclusion() string {
	path := strings.TrimSuffix(l.path, "/")
	switch {
	case l.exact:
		return "request.path != " + strconv.Quote(l.path)
	case l.segments:
		return "request.path != " + strconv.Quote(path) + " && !request.path.startsWith(" + strconv.Quote(path+"/") + ")"
	}
	return "!request.path.startsWith(" + strconv.Quote(l.path) + ")"
}

// aliases returns the further hosts of the Ingress, which apply to its first rule.
func (c *nginxConverter) aliases(at string, ingress *networkingv1.Ingress) (hosts []string) {
	for alias := range strings.SplitSeq(ingress.Annotations[nginxPrefix+"server-alias"], ",") {
		switch alias = strings.ToLower(strings.TrimSpace(alias)); {
		case strings.HasPrefix(alias, "~"):
			c.lose(at+": server-alias", "hosts cannot be a regular expression: %s", alias)
		case alias != "":
			hosts = append(hosts, alias)
		}
	}
	return hosts
}
