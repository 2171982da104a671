// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The tests in this file and beside it convert random configurations, and compare random decisions of the policies with an
// interpreter of the source. A limit that a note names as lost is left out of the interpreter: every limit is converted
// exactly, or named.

// tally counts what the comparisons have seen, so that no generator degenerates.
type tally struct{ allowed, denied, converted, lost int }

// expect expects more than 400 denials, and that the loss of a limit is the exception.
func (n *tally) expect(g *WithT) {
	g.Expect(n.denied).To(BeNumerically(">", 400), "%+v", n)
	g.Expect(n.allowed).To(BeNumerically(">", n.denied/4), "%+v", n)
	g.Expect(n.converted).To(BeNumerically(">", 5*n.lost), "%+v", n)
}

// isLost reports whether a note names the limit at this place, or a field of it, as lost.
func isLost(notes []convert.Note, at string) bool {
	return slices.ContainsFunc(notes, func(n convert.Note) bool {
		field, isPart := strings.CutPrefix(n.At, at+".")
		return n.Loss && (n.At == at || isPart && !strings.HasPrefix(field, "descriptors["))
	})
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// countAll counts the hit for all limits, as if they were one step: it reports false, and counts nothing, if one is full.
func countAll(counts map[string]int64, limits map[string]int64) bool {
	for counter, most := range limits {
		if counts[counter] >= most {
			return false
		}
	}
	for counter := range limits {
		counts[counter]++
	}
	return true
}

// randomNodes returns random descriptors of envoyproxy/ratelimit with keys of this level.
func randomNodes(r *rand.Rand, level int, at string, all *[]*node) (nodes []node) {
	keys := [][]string{{"a", "b"}, {"m", "n"}}[level]
	for range 2 + r.IntN(4) {
		n := node{
			Key: pick(r, keys...), Value: pick(r, "", "", "x", "y", "x*", "x*", "*y", "*y", "x*y", "*", "xx*"),
			ShadowMode: r.IntN(8) == 0,
		}
		if slices.ContainsFunc(nodes, func(other node) bool { return other.Key == n.Key && other.Value == n.Value }) {
			continue
		}
		n.ShareThreshold = strings.HasSuffix(n.Value, "*") && r.IntN(3) == 0
		n.at = fmt.Sprintf("%s[%d]", at, len(nodes))
		if r.IntN(6) > 0 {
			n.RateLimit = &nodeLimit{Unit: "hour", RequestsPerUnit: int64(r.IntN(6))}
			if r.IntN(6) == 0 {
				n.RateLimit = &nodeLimit{Unlimited: true}
			}
		}
		if level == 0 && r.IntN(2) == 0 {
			n.Descriptors = randomNodes(r, 1, n.at+".descriptors", all)
		}
		nodes = append(nodes, n)
	}
	for i := range nodes {
		*all = append(*all, &nodes[i])
	}
	return nodes
}

func TestRandomEnvoyRatelimit(t *testing.T) {
	g := NewWithT(t)
	seen := tally{}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []*node
		root := randomNodes(r, 0, "descriptors", &all)
		data, err := yaml.Marshal(map[string]any{"domain": "edge", "descriptors": root})
		g.Expect(err).NotTo(HaveOccurred())
		policies, notes, err := convert.EnvoyRatelimit(t.Context(), fileOf(data), convert.Options{Namespace: "shop"})
		g.Expect(err).NotTo(HaveOccurred(), "%s", data)
		for _, n := range all {
			if n.RateLimit == nil {
				continue
			}
			seen.converted++
			if isLost(notes, n.at) {
				seen.lost, n.RateLimit = seen.lost+1, nil
			}
		}
		s := &service{root: root, counts: map[string]int64{}}
		e := newEngine(t, policies, &modelStore{now: time.Unix(1_900_000_000, 0)})
		values := []string{"", "x", "y", "xy", "xzy"}
		for range 100 {
			d := plan.Descriptor{{Key: pick(r, "a", "a", "a", "b", "b", "c"), Value: pick(r, values...)}}
			if r.IntN(4) == 0 {
				d = append(d, plan.Entry{Key: pick(r, "m", "n"), Value: pick(r, values...)})
			}
			want := s.allows(d)
			decision, err := e.Decide(t.Context(), &limiter.Check{
				Cost: 1, Attributes: plan.Attributes{Domain: "edge", Descriptors: []plan.Descriptor{d}},
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(decision.Allowed).To(Equal(want), "seed %d, %v: %v\n%s%v", seed, d, decision.Reason, data, notes)
			seen.count(want)
		}
	}
	seen.expect(g)
}

func (n *tally) count(allowed bool) {
	if allowed {
		n.allowed++
	} else {
		n.denied++
	}
}

// condition is an expression of Limitador over the first descriptor, as a tree. An operation evaluates its operands from
// the left; reading an absent entry ends the evaluation.
type condition struct {
	operation  string
	key, value string
	operands   []*condition
}

func randomCondition(r *rand.Rand, depth int) *condition {
	c := &condition{operation: pick(r, "==", "!=", "has", "in", "startsWith", "=="), key: pick(r, "a", "b", "c"), value: pick(r, "1", "2", "")}
	if depth > 0 && r.IntN(3) > 0 {
		c.operation = pick(r, "&&", "||", "||", "!", "?:")
		for range map[string]int{"&&": 2, "||": 2, "!": 1, "?:": 3}[c.operation] {
			c.operands = append(c.operands, randomCondition(r, depth-1))
		}
	}
	return c
}

// text returns the expression as CEL.
func (c *condition) text() string {
	entry := "descriptors[0]." + c.key
	if c.value == "2" {
		entry = "descriptors[0]['" + c.key + "']"
	}
	switch c.operation {
	case "&&", "||":
		return "(" + c.operands[0].text() + " " + c.operation + " " + c.operands[1].text() + ")"
	case "!":
		return "!(" + c.operands[0].text() + ")"
	case "?:":
		return "(" + c.operands[0].text() + " ? " + c.operands[1].text() + " : " + c.operands[2].text() + ")"
	case "has":
		return "has(descriptors[0]." + c.key + ")"
	case "in":
		return "'" + c.key + "' in descriptors[0]"
	case "startsWith":
		return entry + ".startsWith('" + c.value + "')"
	}
	return entry + " " + c.operation + " '" + c.value + "'"
}

// holds reports the value of the expression, and whether it has one.
func (c *condition) holds(d map[string]string) (value, exists bool) {
	if len(c.operands) > 0 {
		first, exists := c.operands[0].holds(d)
		switch {
		case !exists:
			return false, false
		case c.operation == "!":
			return !first, true
		case c.operation == "?:" && first, c.operation == "&&" && first, c.operation == "||" && !first:
			return c.operands[1].holds(d)
		case c.operation == "?:":
			return c.operands[2].holds(d)
		}
		return first, true
	}
	text, exists := d[c.key]
	switch c.operation {
	case "has", "in":
		return exists, true
	case "startsWith":
		return strings.HasPrefix(text, c.value), exists
	case "!=":
		return text != c.value, exists
	}
	return text == c.value, exists
}

// countedLimit is a limit of Limitador.
type countedLimit struct {
	conditions []*condition
	variables  []string
	most       int64
}

// counter returns the counter of the limit for the descriptor, and whether the limit applies.
func (l *countedLimit) counter(d map[string]string) (counter string, applies bool) {
	var values []string
	for _, c := range l.conditions {
		if holds, exists := c.holds(d); !holds || !exists {
			return "", false
		}
	}
	for _, key := range l.variables {
		value, present := d[key]
		if !present {
			return "", false
		}
		values = append(values, value)
	}
	return fmt.Sprintf("%q", values), true
}

// randomLimits returns limits and their file.
func randomLimits(g *WithT, r *rand.Rand) (limits []countedLimit, file []byte) {
	var all []map[string]any
	for i := range 1 + r.IntN(4) {
		l := countedLimit{most: int64(r.IntN(4))}
		var conditions, variables []string
		for range r.IntN(3) {
			c := randomCondition(r, r.IntN(4))
			l.conditions, conditions = append(l.conditions, c), append(conditions, c.text())
		}
		for _, key := range []string{"a", "b"} {
			if r.IntN(3) == 0 {
				l.variables, variables = append(l.variables, key), append(variables, "descriptors[0]."+key)
			}
		}
		limits = append(limits, l)
		// distinct windows make distinct limits
		all = append(all, map[string]any{"namespace": "edge", "max_value": l.most, "seconds": 3600 + i, "conditions": conditions, "variables": variables})
	}
	file, err := yaml.Marshal(all)
	g.Expect(err).NotTo(HaveOccurred())
	return limits, file
}

// randomEntries returns a random descriptor, also as a map.
func randomEntries(r *rand.Rand) (entries plan.Descriptor, d map[string]string) {
	d = map[string]string{}
	for _, key := range []string{"other", "a", "b", "c"} {
		if key == "other" || r.IntN(3) > 0 {
			d[key] = pick(r, "1", "2", "12", "")
			entries = append(entries, plan.Entry{Key: key, Value: d[key]})
		}
	}
	return entries, d
}

func TestRandomLimitador(t *testing.T) {
	g := NewWithT(t)
	seen := tally{}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		limits, file := randomLimits(g, r)
		policies, notes, err := convert.Limitador(t.Context(), fileOf(file), convert.Options{Namespace: "shop"})
		g.Expect(err).NotTo(HaveOccurred(), "%s", file)
		lost := make([]bool, len(limits))
		for i := range limits {
			seen.converted++
			if lost[i] = isLost(notes, fmt.Sprintf("[%d]", i)); lost[i] {
				seen.lost++
			}
		}
		e, counts := newEngine(t, policies, &modelStore{now: time.Unix(1_900_000_000, 0)}), map[string]int64{}
		for range 100 {
			entries, d := randomEntries(r)
			applying := map[string]int64{}
			for i := range limits {
				if counter, applies := limits[i].counter(d); applies && !lost[i] {
					applying[fmt.Sprint(i, counter)] = limits[i].most
				}
			}
			want := countAll(counts, applying)
			decision, err := e.Decide(t.Context(), &limiter.Check{
				Cost: 1, Attributes: plan.Attributes{Domain: "edge", Descriptors: []plan.Descriptor{entries}},
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(decision.Allowed).To(Equal(want), "seed %d, %v: %v\n%s%v", seed, d, decision.Reason, file, notes)
			seen.count(want)
		}
	}
	seen.expect(g)
}
