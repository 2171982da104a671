// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
)

// Options are what the configuration of a rate limit service does not contain.
type Options struct {
	// Namespace is the Namespace of the policies.
	Namespace string
	// LateCharges gives the policies lateCharges from 2 hits on: hits that a proxy sends after the response are then spent
	// whatever the limits admit, as the service counts them. It also admits any check of 2 and more hits.
	LateCharges bool
}

func (o Options) apply(policy *v1alpha1.RateLimitPolicy) {
	if o.LateCharges {
		policy.Spec.LateCharges = v1alpha1.LateCharges{From: 2}
	}
}

// collector collects the policies and the notes of one conversion.
type collector struct {
	found []converted
	notes []Note
	names map[string]bool // "namespace/name" of the policies
	// place returns a path with the file and the line; nil returns it as it is.
	place func(path string) string
	// joinsEntries is true if one descriptor may have the entries of all policies, splitsEntries if several descriptors of a
	// call may.
	joinsEntries, splitsEntries bool
}

func newCollector() collector { return collector{names: map[string]bool{}} }

func (c *collector) placed(at string) string {
	if c.place == nil || at == "" {
		return at
	}
	return c.place(at)
}

func (c *collector) note(at, format string, args ...any) {
	c.addNote(Note{At: c.placed(at), Text: fmt.Sprintf(format, args...)})
}

// addNote adds the note once: a limit of several routes is converted for each.
func (c *collector) addNote(n Note) {
	if !slices.Contains(c.notes, n) {
		c.notes = append(c.notes, n)
	}
}

// skip notes a part of the files that has no limits.
func (c *collector) skip(of *configuration, what string) {
	c.addNote(Note{At: strings.TrimSuffix(of.place(""), ": "), Text: what + " has no limits that the command reads"})
}

// lose notes a limit that no policy has. It returns false, for callers that report whether they could convert it.
func (c *collector) lose(at, format string, args ...any) bool {
	c.addNote(Note{At: c.placed(at), Text: "lost: " + fmt.Sprintf(format, args...), Loss: true})
	return false
}

// newPolicy returns a policy with a name from the words, unique in its namespace.
func (c *collector) newPolicy(namespace string, words ...string) *v1alpha1.RateLimitPolicy {
	base := slug(strings.Join(words, "-"), 55)
	name := base
	for i := 2; c.names[namespace+"/"+name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	c.names[namespace+"/"+name] = true
	return &v1alpha1.RateLimitPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RateLimitPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

// add adds the policy or, if it is invalid, notes its limits as lost with every reason. It reports whether it is valid.
func (c *collector) add(ctx context.Context, at string, policy *v1alpha1.RateLimitPolicy) bool {
	compiled, problems := compileValid(ctx, policy)
	for _, problem := range problems {
		c.lose(at, "the policy would be invalid: %s", problem)
	}
	if len(problems) > 0 {
		return false
	}
	c.found = append(c.found, newConverted(c.placed(at), policy, compiled))
	return true
}

// finish returns the policies that have room together, and the notes. The differences are notes if there is a policy.
func (c *collector) finish(differences ...string) (policies []*v1alpha1.RateLimitPolicy, notes []Note, err error) {
	c.place = nil // the places below are complete
	c.loseCrowded()
	if c.splitsEntries {
		c.noteTotalPrice()
	}
	for _, f := range c.found {
		policies = append(policies, f.policy)
	}
	for _, d := range differences {
		if len(policies) > 0 {
			c.note("", "%s", d)
		}
	}
	return policies, c.notes, nil
}

// compileValid returns the plan of the policy, or why the API server or the controller would reject it.
func compileValid(ctx context.Context, policy *v1alpha1.RateLimitPolicy) (compiled *plan.Plan, problems []string) {
	var text bytes.Buffer
	if err := Write(&text, []*v1alpha1.RateLimitPolicy{policy}); err != nil {
		return nil, []string{err.Error()}
	}
	for _, p := range policyfile.Parse(ctx, text.Bytes(), policyfile.DefaultNamespace).Problems {
		problems = append(problems, p.Text)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	compiled, errs := compile.Compile(policy, compile.Everything(), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	return compiled, problems
}

// setThreshold sets the threshold of all limits with that name. 0, which admits nothing, becomes an
// override that denies every request. It returns false for a threshold that no policy can have: the limit is lost.
func (c *collector) setThreshold(at string, policy *v1alpha1.RateLimitPolicy, limit *v1alpha1.Limit, n uint64) bool {
	most := plan.Algorithm(limit.Algorithm).MaxThreshold()
	if n > uint64(most) { //nolint:gosec // thresholds are positive
		return c.lose(at, "%d exceeds the largest threshold, %d", n, most)
	}
	if n == 0 {
		n = 1
		policy.Spec.Overrides = []v1alpha1.Override{{Name: "none", When: "true", Action: v1alpha1.OverrideActionDeny}}
	}
	limit.Threshold = int64(n)
	return true
}

// unitSeconds are the units of windows in the words of all services.
var unitSeconds = map[string]int64{
	"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2592000, "year": 31536000,
}

// windowOf returns the window as policies write it, such as "1h30m".
func windowOf(d time.Duration) v1alpha1.Duration {
	return v1alpha1.Duration(plan.FormatMillis(d.Milliseconds()))
}

// sortedSet returns the elements in ascending order, each once.
func sortedSet[T cmp.Ordered](elements []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(elements)))
}

// wholeAddress returns the part of a key by which each client address has its own counter.
func wholeAddress() v1alpha1.KeyPart {
	return v1alpha1.KeyPart{Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{IPv6PrefixLength: new(int32(128))}}
}

// allOf joins conditions; none is "".
func allOf(conditions []string) string { return strings.Join(conditions, " && ") }

// notInLabel are the characters that a DNS label cannot have, after upper-case letters are replaced.
var notInLabel = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns a DNS label of at most maxLength characters.
func slug(text string, maxLength int) string {
	s := strings.TrimLeft(notInLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	return cmp.Or(strings.TrimRight(s[:min(len(s), maxLength)], "-"), "limit")
}
