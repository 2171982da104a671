// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// limitadorLimit is a limit in a limits file of Limitador.
type limitadorLimit struct {
	ID         string   `json:"id"`
	Namespace  string   `json:"namespace"`
	MaxValue   int64    `json:"max_value"`
	Seconds    int64    `json:"seconds"`
	Name       string   `json:"name"`
	Conditions []string `json:"conditions"`
	Variables  []string `json:"variables"`
}

// Limitador converts a limits file of Limitador into one policy per limit, in that namespace.
//
// A limit applies to requests of its rate limit domain, which Limitador calls namespace, if all
// conditions hold on the first descriptor and all variables are present. Each combination of their
// values has a fixed window.
func Limitador(ctx context.Context, data []byte, namespace string) ([]*v1alpha1.RateLimitPolicy, []Note, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, nil, fmt.Errorf("not a limits file of Limitador: %w", err)
	}
	var limits []limitadorLimit
	problems, err := json.UnmarshalStrict(asJSON, &limits)
	if err != nil {
		return nil, nil, fmt.Errorf("not a limits file of Limitador: %w", err)
	}
	for i, l := range limits {
		problems = append(problems, l.check(fmt.Sprintf("[%d]", i))...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, nil, err
	}
	c := &limitadorConverter{collector: newCollector(), namespace: namespace}
	for i := range limits {
		c.convert(ctx, fmt.Sprintf("[%d]", i), &limits[i])
	}
	if len(c.policies) > 0 {
		c.note("", "a policy matches every descriptor of a request, not only the first")
	}
	return c.policies, c.notes, nil
}

func (l *limitadorLimit) check(at string) (errs []error) {
	if l.Namespace == "" {
		errs = append(errs, fmt.Errorf("%s.namespace: must not be empty", at))
	}
	if l.MaxValue < 0 {
		errs = append(errs, fmt.Errorf("%s.max_value: %d is negative", at, l.MaxValue))
	}
	if l.Seconds < 1 {
		errs = append(errs, fmt.Errorf("%s.seconds: %d is not positive", at, l.Seconds))
	}
	return errs
}

type limitadorConverter struct {
	collector
	namespace string
}

func (c *limitadorConverter) convert(ctx context.Context, at string, l *limitadorLimit) {
	if l.Seconds > int64(plan.MaxFixedWindow/time.Second) {
		c.lose(at+".seconds", "windows are at most 8784h")
		return
	}
	m, err := limitadorMatch(l)
	if err != nil {
		c.lose(at+".conditions", "%s", err)
		return
	}
	key, err := limitadorKey(l, m)
	if err != nil {
		c.lose(at+".variables", "%s", err)
		return
	}
	words := []string{l.Namespace, l.Name}
	for _, part := range key {
		if part.Descriptor != nil {
			words = append(words, part.Descriptor.Key)
		}
	}
	policy := c.newPolicy(c.namespace, words...)
	policy.Spec = v1alpha1.RateLimitPolicySpec{
		Matches: []v1alpha1.Match{*m},
		Key:     key,
		Limits: []v1alpha1.Limit{{
			Name: limitName(l.Name), Algorithm: v1alpha1.AlgorithmFixedWindow, Window: windowOf(time.Duration(l.Seconds) * time.Second),
		}},
	}
	c.setThreshold(at+".max_value", policy, &policy.Spec.Limits[0], l.MaxValue)
	c.add(ctx, at, policy)
}

// firstDescriptor is an entry of the first descriptor in an expression of Limitador: by index, by
// member or, in files of older releases, by its key alone.
const firstDescriptor = `(?:descriptors\[0\]\[(?:'([^'\\]+)'|"([^"\\]+)")\]|descriptors\[0\]\.([A-Za-z_]\w*)|([A-Za-z_]\w*))`

var (
	limitadorVariable  = regexp.MustCompile(`^` + firstDescriptor + `$`)
	limitadorCondition = regexp.MustCompile(`^` + firstDescriptor + `\s*(==|!=)\s*(?:'([^'\\]*)'|"([^"\\]*)")$`)
)

// oneOf returns the only group that is not empty.
func oneOf(groups []string) string { return strings.Join(groups, "") }

// limitadorMatch returns the match for the conditions. A condition on an absent entry does not
// hold, so the match requires the entries.
func limitadorMatch(l *limitadorLimit) (*v1alpha1.Match, error) {
	m := &v1alpha1.Match{Domain: l.Namespace}
	var conditions []string
	for _, text := range l.Conditions {
		parts := limitadorCondition.FindStringSubmatch(strings.TrimSpace(text))
		if parts == nil {
			when, err := limitadorExpression[bool](text)
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, when)
			requireRead(m, when)
			continue
		}
		key, value := oneOf(parts[1:5]), oneOf(parts[6:8])
		if parts[5] == "==" && value != "" && !slices.ContainsFunc(m.Descriptors, func(d v1alpha1.DescriptorMatch) bool { return d.Key == key && d.Value != "" }) {
			m.Descriptors = append(slices.DeleteFunc(m.Descriptors, func(d v1alpha1.DescriptorMatch) bool { return d.Key == key }),
				v1alpha1.DescriptorMatch{Key: key, Value: value})
			continue
		}
		requireEntry(m, key)
		conditions = append(conditions, "descriptor["+strconv.Quote(key)+"] "+parts[5]+" "+strconv.Quote(value))
	}
	m.When = allOf(conditions)
	return m, nil
}

// requireEntry lets the match require an entry with the key.
func requireEntry(m *v1alpha1.Match, key string) {
	if !slices.ContainsFunc(m.Descriptors, func(d v1alpha1.DescriptorMatch) bool { return d.Key == key }) {
		m.Descriptors = append(m.Descriptors, v1alpha1.DescriptorMatch{Key: key})
	}
}

// requireRead lets the match require the entries that the expression reads: an absent one makes it
// fail in Limitador. An expression that tests for their presence does not need them.
func requireRead(m *v1alpha1.Match, cel string) {
	if strings.Contains(cel, "has(") || strings.Contains(cel, " in ") {
		return
	}
	references, _ := expression.References(cel) // it compiled
	for _, r := range references {
		if r.Member != "" {
			requireEntry(m, r.Member)
		}
	}
}

// limitadorKey returns the key for the variables, whose entries the match then requires.
func limitadorKey(l *limitadorLimit, m *v1alpha1.Match) (parts []v1alpha1.KeyPart, err error) {
	for _, text := range l.Variables {
		if groups := limitadorVariable.FindStringSubmatch(strings.TrimSpace(text)); groups != nil {
			key := oneOf(groups[1:])
			requireEntry(m, key)
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartDescriptor, Descriptor: &v1alpha1.DescriptorKey{Key: key}})
			continue
		}
		cel, err := limitadorExpression[string](text)
		if err != nil {
			return nil, err
		}
		requireRead(m, cel)
		parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}})
	}
	return parts, nil
}

// limitadorExpression returns the expression with the first descriptor as the policy's.
func limitadorExpression[T expression.Result](text string) (string, error) {
	converted := strings.ReplaceAll(text, "descriptors[0]", "descriptor")
	if _, err := expression.Compile[T](converted); err != nil {
		return "", fmt.Errorf("%q cannot be converted: %w", text, err)
	}
	return "(" + converted + ")", nil
}
