// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/utils/ptr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// envoyRatelimit is the service with its configuration files.
var envoyRatelimit = service{
	name:            "a configuration of envoyproxy/ratelimit",
	isConfiguration: func(root *yamlv3.Node) bool { return member(root, "domain") != nil },
}

// EnvoyRatelimit converts configuration files of envoyproxy/ratelimit into one
// policy per limit. The files may also be ConfigMaps with configurations. It returns an error for a
// file that the service itself would reject.
//
// The service looks up a descriptor entry by entry: at each level the exact value wins
// over a wildcard, and a wildcard over a key without a value. A limit applies to
// descriptors of exactly its depth. So each match forbids other entries, and excludes the
// values of the limits that win over it.
func EnvoyRatelimit(ctx context.Context, files []File, o Options) ([]*v1alpha1.RateLimitPolicy, []Note, error) {
	c := &erlConverter{collector: newCollector(), options: o}
	found, err := envoyRatelimit.read(files, c.skip)
	if err != nil {
		return nil, nil, err
	}
	domains := map[string]string{} // the places of domains
	for _, configuration := range found {
		config, err := readERL(configuration)
		if err != nil {
			return nil, nil, err
		}
		place := configuration.place("domain")
		if other, isKnown := domains[config.Domain]; isKnown {
			return nil, nil, fmt.Errorf("%s: %q is also at %s; the service rejects that, or with MERGE_DOMAIN_CONFIG joins them: write one file", place, config.Domain, other)
		}
		domains[config.Domain] = place
		c.domain, c.place = config.Domain, configuration.place
		c.level(ctx, "descriptors", config.Descriptors, nil)
	}
	c.splitsEntries = true
	differences := []string{
		"windows start at the first request of a caller, not at the full minute, hour or day",
		"the entries of a descriptor may come in any order",
		"denied hits are not counted; counting: Attempts counts them",
	}
	if !o.LateCharges {
		differences = append(differences, "hits sent after the response that do not fit are not spent; if the proxy sends such (apply_on_stream_done), set --late-charges")
	}
	return c.finish(differences...)
}

type erlConverter struct {
	collector
	options Options
	domain  string
}

// erlStep is one entry on the path to a limit.
type erlStep struct {
	key, value string
	shared     bool // all values of a wildcard share one budget
	// others are the siblings that win over this one where they match.
	others []erlDescriptor
}

func (s *erlStep) isExact() bool { return s.value != "" && !isWildcard(s.value) }

func (c *erlConverter) level(ctx context.Context, at string, descriptors []erlDescriptor, path []erlStep) {
	for i, d := range descriptors {
		at := fmt.Sprintf("%s[%d]", at, i)
		step := erlStep{key: d.Key, value: d.Value, shared: d.ShareThreshold, others: winners(descriptors, i)}
		here := append(slices.Clone(path), step)
		if n := slices.IndexFunc(step.others, func(o erlDescriptor) bool { return isWildcard(o.Value) && covers(o.Value, d.Value) }); n >= 0 {
			c.note(at, "has no effect: every value has the pattern %q, too, which wins", step.others[n].Value)
			continue
		}
		c.noteUnsupported(at, &d)
		if d.RateLimit != nil {
			c.limit(ctx, at, &d, here)
		}
		c.level(ctx, at+".descriptors", d.Descriptors, here)
	}
}

// repeatedKey returns a key that occurs twice on the path, or "". Expressions read the first entry
// with a key only.
func repeatedKey(path []erlStep) string {
	for i, s := range path {
		if slices.ContainsFunc(path[:i], func(other erlStep) bool { return other.key == s.key }) {
			return s.key
		}
	}
	return ""
}

// winners returns the siblings with the same key that win over descriptor i: exact
// values over wildcards, earlier wildcards over later ones, and any value over none.
func winners(siblings []erlDescriptor, i int) []erlDescriptor {
	var found []erlDescriptor
	loser := siblings[i]
	rank := func(d erlDescriptor) int {
		switch {
		case d.Value == "":
			return 2
		case isWildcard(d.Value):
			return 1
		}
		return 0
	}
	for j, d := range siblings {
		if d.Key != loser.Key || rank(loser) == 0 || rank(loser) == 1 && areDisjoint(d.Value, loser.Value) {
			continue
		}
		if rank(d) < rank(loser) || rank(d) == 1 && rank(loser) == 1 && j < i {
			found = append(found, d)
		}
	}
	return found
}

func (c *erlConverter) noteUnsupported(at string, d *erlDescriptor) {
	if d.DetailedMetric {
		c.note(at+".detailed_metric", "not carried over: metrics are by policy and limit, and never hold values of callers")
	}
	if d.ValueToMetric {
		c.note(at+".value_to_metric", "not carried over: metrics are by policy and limit, and never hold values of callers")
	}
	if d.QuotaMode {
		c.note(at+".quota_mode", "not carried over: the limit denies on its own, in quota mode only all together do; mode Shadow counts without denying")
	}
	if len(d.Metadata) > 0 {
		c.note(at+".metadata", "not carried over: answers have the name of the policy and of the limit instead")
	}
	if isWildcard(strings.TrimSuffix(d.Value, "*")) {
		c.note(at+".value", "releases of envoyproxy/ratelimit before March 2026 know * only at the end: there, %q is a text without a pattern", d.Value)
	}
	if d.ShareThreshold && !isWildcard(d.Value) {
		c.note(at+".share_threshold", "has no effect without a wildcard value")
	}
	if d.RateLimit != nil {
		for i, r := range d.RateLimit.Replaces {
			c.note(fmt.Sprintf("%s.rate_limit.replaces[%d]", at, i),
				"not carried over: the limit %q stays in force too; exempt its callers with an override there", r.Name)
		}
	}
}

func (c *erlConverter) limit(ctx context.Context, at string, d *erlDescriptor, path []erlStep) {
	l := d.RateLimit
	if l.Unlimited {
		return // no policy: the limits that it wins over exclude it
	}
	window := windowOf(time.Duration(unitSeconds[strings.ToLower(l.Unit)]) * time.Second)
	if key := repeatedKey(path); key != "" {
		c.lose(at, "the key %q occurs twice on the path to the limit; rename one of the two where the descriptors are made", key)
		return
	}
	for _, s := range path {
		if s.value == "" && strings.HasSuffix(s.key, "*") {
			c.lose(at, "the key %q is a pattern for keys and values; name the key and put the pattern into the value", s.key)
			return
		}
	}
	policy := c.newPolicy(c.options.Namespace, c.words(path)...)
	policy.Spec = v1alpha1.RateLimitPolicySpec{
		Matches: []v1alpha1.Match{c.match(path)},
		Key:     c.key(path),
		Limits: []v1alpha1.Limit{{
			Name: slug(l.Name, 63), Algorithm: v1alpha1.AlgorithmFixedWindow, Window: window,
		}},
	}
	c.options.apply(policy)
	if d.ShadowMode {
		policy.Spec.Mode = v1alpha1.ModeShadow
	}
	n := uint64(ptr.Deref(l.RequestsPerUnit, 0)) //nolint:gosec // the default of the service, else 0..1<<32-1
	if !c.setThreshold(at+".rate_limit.requests_per_unit", policy, &policy.Spec.Limits[0], n) {
		return
	}
	if when := policy.Spec.Matches[0].When; len(when) > 1024 {
		c.lose(at, "the expression that excludes the more specific limits has %d characters, at most 1024 are allowed", len(when))
		return
	}
	c.add(ctx, at, policy)
}

func (c *erlConverter) match(path []erlStep) v1alpha1.Match {
	m := v1alpha1.Match{Domain: c.domain, OtherEntries: v1alpha1.OtherEntriesForbidden}
	var conditions []string
	for i := range path {
		entry, rest := path[i].match()
		m.Descriptors = append(m.Descriptors, entry)
		conditions = append(conditions, rest...)
	}
	m.When = allOf(conditions)
	return m
}

// match returns the entry that the step wants, and conditions for patterns and exceptions that an entry cannot have.
func (s *erlStep) match() (entry v1alpha1.DescriptorMatch, conditions []string) {
	entry.Key = s.key
	value := "descriptor[" + strconv.Quote(s.key) + "]"
	switch {
	case s.value == "*":
	case isPrefix(s.value):
		entry.Type, entry.Value = v1alpha1.EntryMatchPrefix, strings.TrimSuffix(s.value, "*")
	case isWildcard(s.value):
		conditions = append(conditions, wildcardCondition(value, s.value))
	default:
		entry.Value = s.value
	}
	var exact []string
	for _, o := range s.others {
		isText := !isWildcard(o.Value)
		switch {
		case (isText || isPrefix(o.Value)) && len(o.Value) <= plan.MaxText && len(entry.Except) < plan.MaxExcept:
			entry.Except = append(entry.Except, o.Value)
		case isText:
			exact = append(exact, strconv.Quote(o.Value))
		default:
			conditions = append(conditions, "!"+wildcardCondition(value, o.Value))
		}
	}
	if len(exact) > 0 {
		conditions = append(conditions, "!("+value+" in ["+strings.Join(exact, ", ")+"])")
	}
	return entry, conditions
}

// key returns the key of the limit: every value that it leaves open has its own budget.
func (c *erlConverter) key(path []erlStep) []v1alpha1.KeyPart {
	var parts []v1alpha1.KeyPart
	for _, s := range path {
		if s.isExact() || isWildcard(s.value) && s.shared {
			continue
		}
		parts = append(parts, v1alpha1.KeyPart{
			Type: v1alpha1.KeyPartDescriptor, Descriptor: &v1alpha1.DescriptorKey{Key: s.key},
		})
	}
	return parts
}

// words returns the words of a policy's name: the domain and the path.
func (c *erlConverter) words(path []erlStep) []string {
	words := []string{c.domain}
	for _, s := range path {
		words = append(words, s.key, s.value)
	}
	return words
}
