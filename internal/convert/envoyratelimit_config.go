// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/utils/ptr"

	"github.com/weir-dev/weir/internal/reject"
)

// erlConfig is a configuration file of envoyproxy/ratelimit; see its README.
type erlConfig struct {
	Domain      string          `json:"domain"`
	Descriptors []erlDescriptor `json:"descriptors"`
}

// erlDescriptor is a node of the descriptor tree.
type erlDescriptor struct {
	Key            string          `json:"key"`
	Value          string          `json:"value"`
	RateLimit      *erlRateLimit   `json:"rate_limit"`
	Descriptors    []erlDescriptor `json:"descriptors"`
	ShadowMode     bool            `json:"shadow_mode"`
	QuotaMode      bool            `json:"quota_mode"`
	DetailedMetric bool            `json:"detailed_metric"`
	ValueToMetric  bool            `json:"value_to_metric"`
	ShareThreshold bool            `json:"share_threshold"`
	Metadata       map[string]any  `json:"metadata"`
}

type erlRateLimit struct {
	Unit            string       `json:"unit"`
	RequestsPerUnit *int64       `json:"requests_per_unit"`
	Unlimited       bool         `json:"unlimited"`
	Name            string       `json:"name"`
	Replaces        []erlReplace `json:"replaces"`
	// Fields of forks, such as algorithm, are rejected as unknown.
}

type erlReplace struct {
	Name string `json:"name"`
}

// readERL reads a configuration and rejects what the service rejects. Errors name the
// field.
func readERL(c *configuration) (*erlConfig, error) {
	quoteTexts(c.root)
	config := &erlConfig{}
	errs, err := envoyRatelimit.decode(c, config)
	if err != nil {
		return nil, c.problem(err)
	}
	if config.Domain == "" {
		errs = append(errs, errors.New("domain: must not be empty"))
	}
	return config, c.problem(append(errs, checkERL("descriptors", config.Descriptors)...)...)
}

// erlTexts are the fields with a text. The service reads it as it is written, also without quotes, such as
// 404 or yes.
var erlTexts = []string{"domain", "key", "value", "name", "unit"}

// quoteTexts makes strings of the values of the fields with a text.
func quoteTexts(node *yamlv3.Node) {
	for i, child := range node.Content {
		if node.Kind == yamlv3.MappingNode && i%2 == 1 && node.Content[i-1].Value == "metadata" {
			continue // the service does not look into it
		}
		isText := node.Kind == yamlv3.MappingNode && i%2 == 1 && slices.Contains(erlTexts, node.Content[i-1].Value)
		if isText && child.Kind == yamlv3.ScalarNode && child.ShortTag() != "!!null" {
			child.Tag, child.Style = "!!str", yamlv3.DoubleQuotedStyle
		}
		quoteTexts(child)
	}
}

func checkERL(at string, descriptors []erlDescriptor) (errs []error) {
	seen := map[string]bool{}
	for i, d := range descriptors {
		at, id := fmt.Sprintf("%s[%d]", at, i), d.Key+"_"+d.Value
		errs = append(errs,
			reject.If(d.Key == "", "%s.key: must not be empty", at),
			reject.If(seen[id], "%s: key %q with value %q is defined twice", at, d.Key, d.Value))
		seen[id] = true
		if d.RateLimit != nil {
			errs = append(errs, d.RateLimit.check(at+".rate_limit")...)
		}
		errs = append(errs, checkERL(at+".descriptors", d.Descriptors)...)
	}
	return errs
}

func (l *erlRateLimit) check(at string) (errs []error) {
	if l.Unlimited {
		return []error{reject.If(l.Unit != "", "%s.unit: must not be set when unlimited", at)}
	}
	_, known := unitSeconds[strings.ToLower(l.Unit)]
	errs = append(errs, reject.If(!known, "%s.unit: %q is not one of second, minute, hour, day, week, month, year", at, l.Unit))
	for i, r := range l.Replaces {
		errs = append(errs,
			reject.If(r.Name == "", "%s.replaces[%d].name: must not be empty", at, i),
			reject.If(r.Name != "" && r.Name == l.Name, "%s.replaces[%d].name: %q is the limit itself", at, i, r.Name))
	}
	n := ptr.Deref(l.RequestsPerUnit, 0)
	return append(errs, reject.If(n < 0 || n > 1<<32-1, "%s.requests_per_unit: %d is not in 0..%d", at, n, int64(1<<32-1)))
}
