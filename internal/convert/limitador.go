// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/reject"
)

// limitadorLimit is a limit in a limits file of Limitador.
type limitadorLimit struct {
	ID         string   `json:"id"`
	Namespace  string   `json:"namespace"`
	MaxValue   uint64   `json:"max_value"`
	Seconds    int64    `json:"seconds"`
	Name       string   `json:"name"`
	Conditions []string `json:"conditions"`
	Variables  []string `json:"variables"`
}

// limitador is the service with its limits files, and with the resource of its operator.
var limitador = service{
	name: "a limits file of Limitador", kind: "Limitador", part: []string{"spec", "limits"},
	isConfiguration: func(root *yamlv3.Node) bool { return root.Kind == yamlv3.SequenceNode },
}

// Limitador converts limits files of Limitador into one policy per limit. The files may also be ConfigMaps and
// resources of the kind Limitador with the limits.
//
// A limit applies to requests of its rate limit domain, which Limitador calls namespace, if all
// conditions hold on the first descriptor and all variables are present. Each combination of their
// values has a fixed window.
func Limitador(ctx context.Context, files []File, o Options) ([]*v1alpha1.RateLimitPolicy, []Note, error) {
	c := &limitadorConverter{collector: newCollector(), options: o}
	c.joinsEntries = true
	found, err := limitador.read(files, c.skip)
	if err != nil {
		return nil, nil, err
	}
	first := map[string]string{} // the places of limits, by what makes two limits one
	for _, configuration := range found {
		var limits []limitadorLimit
		problems, err := limitador.decode(configuration, &limits)
		for i := range limits {
			problems = append(problems, limits[i].check(fmt.Sprintf("[%d]", i))...)
		}
		if err := configuration.problem(append(problems, err)...); err != nil {
			return nil, nil, err
		}
		c.place = configuration.place
		for i := range limits {
			at := fmt.Sprintf("[%d]", i)
			if other, isKnown := first[limits[i].identity()]; isKnown {
				c.note(at, "has no effect: Limitador keeps %s, which has the same namespace, seconds, conditions and variables", other)
				continue
			}
			first[limits[i].identity()] = c.placed(at)
			c.convert(ctx, at, &limits[i])
		}
	}
	differences := []string{"a policy matches every descriptor of a request, not only the first"}
	if !o.LateCharges {
		differences = append(differences, "hits that Kuadrant reports after a response are not spent if they do not fit; for limits of tokens set --late-charges")
	}
	return c.finish(differences...)
}

func (l *limitadorLimit) check(at string) []error {
	return []error{
		reject.If(l.Namespace == "", "%s.namespace: must not be empty", at),
		reject.If(l.Seconds < 1, "%s.seconds: %d is not positive", at, l.Seconds),
	}
}

// identity is equal for limits of which Limitador keeps one, whatever their maximum and name.
func (l *limitadorLimit) identity() string {
	return fmt.Sprintf("%q %d %q %q", l.Namespace, l.Seconds, sortedSet(l.Conditions), sortedSet(l.Variables))
}

type limitadorConverter struct {
	collector
	options Options
}

func (c *limitadorConverter) convert(ctx context.Context, at string, l *limitadorLimit) {
	if l.Seconds > int64(plan.MaxFixedWindow/time.Second) {
		c.lose(at+".seconds", "windows are at most 8784h")
		return
	}
	m, key, err := limitadorMatch(l)
	if err != nil {
		c.lose(at, "%s", err)
		return
	}
	if strings.Contains(fmt.Sprint(l.Conditions, l.Variables), "size(") {
		c.note(at, "size() counts the characters of a text, in Limitador its bytes")
	}
	words := []string{l.Namespace, l.Name}
	for _, part := range key {
		if part.Descriptor != nil {
			words = append(words, part.Descriptor.Key)
		}
	}
	policy := c.newPolicy(c.options.Namespace, words...)
	policy.Spec = v1alpha1.RateLimitPolicySpec{
		Matches: []v1alpha1.Match{*m},
		Key:     key,
		Limits: []v1alpha1.Limit{{
			Name: slug(l.Name, 63), Algorithm: v1alpha1.AlgorithmFixedWindow, Window: windowOf(time.Duration(l.Seconds) * time.Second),
		}},
	}
	c.options.apply(policy)
	if c.setThreshold(at+".max_value", policy, &policy.Spec.Limits[0], l.MaxValue) {
		c.add(ctx, at, policy)
	}
}

// firstDescriptor is an entry of the first descriptor in an expression of Limitador: by index, by
// member or, in files of older releases, by its key alone.
const firstDescriptor = `(?:descriptors\[0\]\[(?:'([^'\\]+)'|"([^"\\]+)")\]|descriptors\[0\]\.([A-Za-z_]\w*)|([A-Za-z_]\w*))`

var (
	limitadorVariable  = regexp.MustCompile(`^` + firstDescriptor + `$`)
	limitadorCondition = regexp.MustCompile(`^` + firstDescriptor + `\s*(==|!=)\s*(?:'([^'\\]*)'|"([^"\\]*)")$`)
	limitadorPrefix    = regexp.MustCompile(`^(!?)` + firstDescriptor + `\.startsWith\((?:'([^'\\*]+)'|"([^"\\*]+)")\)$`)
)

// oneOf returns the only group that is not empty.
func oneOf(groups []string) string { return strings.Join(groups, "") }

// limitadorMatch returns the match for the conditions, and the key for the variables. A limit applies only if its entries
// are present, so the match requires those without which it never applies.
func limitadorMatch(l *limitadorLimit) (m *v1alpha1.Match, key []v1alpha1.KeyPart, err error) {
	m = &v1alpha1.Match{Domain: l.Namespace}
	var conditions []string
	var expressions []*limitadorExpression
	for _, text := range l.Conditions {
		if parts := limitadorCondition.FindStringSubmatch(strings.TrimSpace(text)); parts != nil {
			conditions = append(conditions, requireValue(m, oneOf(parts[1:5]), parts[5], oneOf(parts[6:8]))...)
			continue
		}
		if parts := limitadorPrefix.FindStringSubmatch(strings.TrimSpace(text)); parts != nil && requirePrefix(m, oneOf(parts[2:6]), parts[1] == "", oneOf(parts[6:8])) {
			continue
		}
		e, err := parseLimitador(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%q cannot be converted: %w", text, err)
		}
		requireEntries(m, neededReads(e.root))
		expressions = append(expressions, e)
	}
	if key, err = limitadorKey(l, m); err != nil {
		return nil, nil, err
	}
	for _, e := range expressions {
		condition, err := e.holds(e.root, true, keysOf(m))
		if err == nil {
			_, err = expression.Compile[bool](condition)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%q cannot be converted: %w", e.source, err)
		}
		conditions = append(conditions, condition)
	}
	m.When = allOf(conditions)
	return m, key, nil
}

// requireValue adds the comparison of an entry to the match: to the entry, if that can have it, else as a condition, which it
// returns.
func requireValue(m *v1alpha1.Match, key, operator, value string) (conditions []string) {
	switch d := requireEntry(m, key); {
	case value == "":
	case operator == "==" && d.Value == "" && len(d.Except) == 0:
		d.Value = value
		return nil
	case operator == "!=" && !isWildcard(value) && exclude(d, value):
		return nil
	}
	return []string{"descriptor[" + strconv.Quote(key) + "] " + operator + " " + strconv.Quote(value)}
}

// requirePrefix lets an entry of the match have the prefix, or another one unless wanted. It reports whether the entry can.
func requirePrefix(m *v1alpha1.Match, key string, wanted bool, prefix string) bool {
	d := requireEntry(m, key)
	if !wanted {
		return exclude(d, prefix+"*")
	}
	if d.Value != "" || len(prefix) > plan.MaxText {
		return false
	}
	d.Type, d.Value = v1alpha1.EntryMatchPrefix, prefix
	return true
}

// exclude adds the exception to the entry, and reports whether that can have it.
func exclude(d *v1alpha1.DescriptorMatch, exception string) bool {
	isExact := d.Value != "" && d.Type != v1alpha1.EntryMatchPrefix
	if isExact || len(exception) > plan.MaxText || len(d.Except) == plan.MaxExcept {
		return false
	}
	if !slices.Contains(d.Except, exception) {
		d.Except = append(d.Except, exception)
	}
	return true
}

// requireEntry returns the entry with the key that the match requires.
func requireEntry(m *v1alpha1.Match, key string) *v1alpha1.DescriptorMatch {
	requireEntries(m, []string{key})
	return &m.Descriptors[slices.Index(keysOf(m), key)]
}

// requireEntries lets the match require entries with the keys.
func requireEntries(m *v1alpha1.Match, keys []string) {
	for _, key := range without(keys, keysOf(m)) {
		m.Descriptors = append(m.Descriptors, v1alpha1.DescriptorMatch{Key: key})
	}
}

// keysOf returns the keys of the entries that the match requires.
func keysOf(m *v1alpha1.Match) (keys []string) {
	for _, d := range m.Descriptors {
		keys = append(keys, d.Key)
	}
	return keys
}

// limitadorKey returns the key for the variables, whose entries the match then requires.
func limitadorKey(l *limitadorLimit, m *v1alpha1.Match) (parts []v1alpha1.KeyPart, err error) {
	for _, text := range l.Variables {
		if groups := limitadorVariable.FindStringSubmatch(strings.TrimSpace(text)); groups != nil {
			key := oneOf(groups[1:])
			requireEntries(m, []string{key})
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartDescriptor, Descriptor: &v1alpha1.DescriptorKey{Key: key}})
			continue
		}
		cel, err := limitadorValue(text, m)
		if err != nil {
			return nil, fmt.Errorf("%q cannot be converted: %w", text, err)
		}
		parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}})
	}
	return parts, nil
}

// limitadorValue returns the expression for the value of a variable, whose entries the match then requires.
func limitadorValue(text string, m *v1alpha1.Match) (string, error) {
	e, err := parseLimitador(text)
	if err != nil {
		return "", err
	}
	if sometimes := without(reads(e.root), certainReads(e.root)); len(sometimes) > 0 {
		return "", fmt.Errorf("it reads the entry %q only in some evaluations", sometimes[0])
	}
	requireEntries(m, reads(e.root))
	cel, err := e.text(e.root)
	if err != nil {
		return "", err
	}
	_, err = expression.Compile[string](cel)
	return cel, err
}
