// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Defaults that Compile fills in.
const (
	defaultIPv4PrefixLength = 32
	defaultIPv6PrefixLength = 64
	defaultBurstOfGCRA      = 1
	defaultHardLimitPercent = 150
	defaultBucketsPerWindow = 60
	defaultMaxOpen          = 1000
)

// defaultMessages are the messages of denied requests, by denial code.
var defaultMessages = map[v1alpha1.DenialCode]string{
	v1alpha1.DenialCodeRateLimited:     "Rate limit exceeded.",
	v1alpha1.DenialCodeTooManyAttempts: "Too many attempts.",
}

// Compile returns the plan of the policy, or every problem that prevents one. now selects the
// two years of offsets of time zones that the plan holds; plans compiled in one month are equal.
// The problems are
//
//   - field.ErrorTypeForbidden for a match outside the grant,
//   - field.ErrorTypeNotSupported for a field or value that only a later release knows,
//   - other types for an invalid spec.
func Compile(policy *v1alpha1.RateLimitPolicy, grant Grant, now time.Time) (*plan.Plan, field.ErrorList) {
	spec := &policy.Spec
	c := &compiler{grant: grant, month: monthOf(now)}
	at := field.NewPath("spec")
	compiled := &plan.Plan{
		Namespace:    policy.Namespace,
		Name:         policy.Name,
		UID:          string(policy.UID),
		Generation:   policy.Generation,
		Mode:         plan.Mode(cmp.Or(spec.Mode, v1alpha1.ModeEnforce)),
		Matches:      c.matches(at, policy),
		Key:          c.key(at.Child("key"), spec.Key),
		OnMissingKey: plan.OnMissingKey(cmp.Or(spec.OnMissingKey, v1alpha1.OnMissingKeyShare)),
		Limits:       c.limits(at.Child("limits"), spec.Limits),
		Counting:     plan.Counting(cmp.Or(spec.Counting, v1alpha1.CountingAdmitted)),
		DenyWhen:     plan.DenyWhen(cmp.Or(spec.DenyWhen, v1alpha1.DenyWhenThresholdExceeded)),
		Reservations: c.reservations(at.Child("reservations"), spec.Reservations),
		Slices:       plan.Slices{MaxPercent: int64(spec.Slices.MaxPercent), MaxAgeMillis: c.millis(at.Child("slices", "maxAge"), spec.Slices.MaxAge)},
		LateCharges:  plan.LateCharges{From: spec.LateCharges.From},
		Overrides:    c.overrides(at.Child("overrides"), spec),
		Candidates:   c.candidates(at.Child("limits"), spec.Limits),
		FailureMode:  plan.FailureMode(cmp.Or(spec.FailureMode, v1alpha1.FailureModeOpen)),
		Denial:       c.denial(at.Child("denial"), &spec.Denial),
	}
	c.checkPrices()
	c.checkOverrideKeys(at.Child("overrides"), compiled)
	c.checkSlices(at, compiled)
	if len(c.errs) == 0 {
		c.verify(at, compiled)
	}
	c.errs = withUnsupported(c.errs, spec.Unsupported)
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	return compiled, nil
}

// withUnsupported returns the problems of a spec with fields that this release does not know. These may be what makes
// other fields valid, so of the other problems only the ones of a grant stay.
func withUnsupported(problems field.ErrorList, unsupported []string) field.ErrorList {
	if len(unsupported) == 0 {
		return problems
	}
	problems = slices.DeleteFunc(problems, func(e *field.Error) bool { return e.Type != field.ErrorTypeForbidden })
	for _, text := range unsupported {
		path, problem, _ := strings.Cut(text, ": ")
		problems = append(problems, &field.Error{
			Type: field.ErrorTypeNotSupported, Field: "spec." + path, BadValue: field.OmitValueType{}, Detail: problem + " of a later release",
		})
	}
	return problems
}

// compiler collects the errors of one compilation.
type compiler struct {
	grant Grant
	month time.Time // its start
	errs  field.ErrorList

	prices prices
}

func (c *compiler) add(err *field.Error) { c.errs = append(c.errs, err) }

// verify validates the plan once more: a spec that the schema should have rejected, or
// a plan that is too large to publish, must not reach the decision half.
func (c *compiler) verify(at *field.Path, p *plan.Plan) {
	if err := p.Validate(); err != nil {
		c.add(field.Invalid(at, field.OmitValueType{}, strings.ReplaceAll(err.Error(), "\n", "; ")))
	} else if _, err := plan.Encode(p); err != nil {
		c.add(field.Invalid(at, field.OmitValueType{}, err.Error()))
	}
}

// matches returns the matches of the policy, and adds their problems. Whether the targets exist does not matter:
// they may be applied later.
func (c *compiler) matches(spec *field.Path, policy *v1alpha1.RateLimitPolicy) []plan.Match {
	for i := range policy.Spec.TargetRefs {
		if _, err := targetOf(&policy.Spec.TargetRefs[i], policy.Namespace); err != nil {
			c.add(field.Invalid(spec.Child("targetRefs").Index(i), field.OmitValueType{}, err.Error()))
		}
	}
	matches := MatchesOf(policy)
	for i := range policy.Spec.Matches {
		at := spec.Child("matches").Index(i)
		c.checkMatch(at, &matches[i])
		c.checkHeaders(at.Child("headers"), policy.Spec.Matches[i].Headers)
		c.checkQueryParameters(at.Child("queryParameters"), policy.Spec.Matches[i].QueryParameters)
		c.checkDescriptors(at.Child("descriptors"), policy.Spec.Matches[i].Descriptors)
		c.errs = append(c.errs, c.grant.check(at, &matches[i])...)
	}
	return matches
}

// MatchesOf returns the matches of the policy's plan, without looking for problems. Each has all targets; a policy
// that has only targets has one match.
func MatchesOf(policy *v1alpha1.RateLimitPolicy) []plan.Match {
	targets := TargetsOf(policy)
	if len(policy.Spec.Matches) == 0 && len(targets) > 0 {
		return []plan.Match{{Targets: targets}}
	}
	var matches []plan.Match
	for i := range policy.Spec.Matches {
		m := &policy.Spec.Matches[i]
		match := plan.Match{
			Targets: targets, Hosts: m.Hosts, Methods: m.Methods, Paths: m.Paths,
			Headers: headersOf(m), QueryParameters: queryParametersOf(m), Domain: m.Domain, When: m.When,
			ForbidsOtherEntries: m.OtherEntries == v1alpha1.OtherEntriesForbidden,
		}
		for j := range m.Descriptors {
			match.Descriptors = append(match.Descriptors, entryMatchOf(&m.Descriptors[j]))
		}
		matches = append(matches, match)
	}
	return matches
}

// TargetsOf returns the targets that the policy names, in its own Namespace. It leaves out names that no object has.
func TargetsOf(policy *v1alpha1.RateLimitPolicy) []plan.Target {
	var targets []plan.Target
	for i := range policy.Spec.TargetRefs {
		if t, err := targetOf(&policy.Spec.TargetRefs[i], policy.Namespace); err == nil {
			targets = append(targets, t)
		}
	}
	return targets
}

func targetOf(r *gatewayv1.LocalPolicyTargetReferenceWithSectionName, namespace string) (plan.Target, error) {
	var section string
	if r.SectionName != nil {
		section = string(*r.SectionName)
	}
	return plan.NewTarget(string(r.Kind), namespace, string(r.Name), section)
}

func (c *compiler) checkMatch(at *field.Path, m *plan.Match) {
	for i, path := range m.Paths {
		if normal := normalPattern(path); normal != path {
			c.add(field.Invalid(at.Child("paths").Index(i), path,
				"never matches: paths are normalized before matching, write "+normal))
		}
	}
	c.condition(at.Child("when"), m.When)
}

// normalPattern normalizes a path pattern like the paths of requests. A prefix may end
// within a segment, so a letter stands for the rest of it.
func normalPattern(pattern string) string {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	if !isPrefix {
		return plan.NormalizePath(pattern)
	}
	return strings.TrimSuffix(plan.NormalizePath(prefix+"x"), "x") + "*"
}

func (c *compiler) key(at *field.Path, parts []v1alpha1.KeyPart) []plan.KeyPart {
	var compiled []plan.KeyPart
	for i, part := range parts {
		p := plan.KeyPart{Type: plan.KeyPartType(part.Type)}
		switch {
		case part.Header != nil:
			p.Header = strings.ToLower(part.Header.Name)
			c.checkHeaderKey(at.Index(i).Child("header", "name"), part.Header.Name)
		case part.Cookie != nil:
			p.Cookie = part.Cookie.Name
		case part.QueryParameter != nil:
			p.QueryParameter = part.QueryParameter.Name
			c.checkTrimmed(at.Index(i).Child("queryParameter", "name"), p.QueryParameter)
		case part.Claim != nil:
			p.Claim = &plan.Claim{Payload: part.Claim.Payload, Name: part.Claim.Name}
		case part.RemoteAddress != nil:
			p.IPv4PrefixLength = int(ptr.Deref(part.RemoteAddress.IPv4PrefixLength, defaultIPv4PrefixLength))
			p.IPv6PrefixLength = int(ptr.Deref(part.RemoteAddress.IPv6PrefixLength, defaultIPv6PrefixLength))
		case part.Descriptor != nil:
			p.Descriptor = part.Descriptor.Key
		case part.Expression != nil:
			p.Expression = part.Expression.CEL
			checkExpression[string](c, at.Index(i).Child("expression", "cel"), p.Expression)
		}
		compiled = append(compiled, p)
	}
	return compiled
}

func (c *compiler) reservations(at *field.Path, r v1alpha1.Reservations) plan.Reservations {
	if r == (v1alpha1.Reservations{}) {
		return plan.Reservations{}
	}
	return plan.Reservations{
		MaxTTLMillis: c.millis(at.Child("maxTTL"), r.MaxTTL),
		MaxOpen:      int64(ptr.Deref(r.MaxOpen, defaultMaxOpen)),
		Cost:         c.cost(at.Child("cost", "cel"), r.Cost.CEL),

		BlockOnCommit: r.BlockOn == v1alpha1.BlockOnCommit,
	}
}

// checkSlices adds the problems of slices, once the rest of the spec has none.
func (c *compiler) checkSlices(at *field.Path, p *plan.Plan) {
	if len(c.errs) > 0 {
		return
	}
	for _, problem := range p.SliceProblems() {
		c.add(field.Invalid(at.Child(problem.Field), field.OmitValueType{}, problem.Problem))
	}
}

func (c *compiler) denial(at *field.Path, d *v1alpha1.Denial) plan.Denial {
	code := cmp.Or(d.Code, v1alpha1.DenialCodeRateLimited)
	compiled := plan.Denial{Code: string(code), Message: cmp.Or(d.Message, defaultMessages[code]), Status: int(d.Status)}
	if !slices.Contains([]int32{0, 403, 429, 503}, d.Status) {
		c.add(field.NotSupported(at.Child("status"), d.Status, []string{"403", "429", "503"}))
	}
	for i, h := range d.Headers {
		header := plan.DenialHeader{Name: h.Name, Value: h.Value}
		if problem := header.Problem(); problem != "" {
			c.add(field.Invalid(at.Child("headers").Index(i), h.Name, problem))
		}
		compiled.Headers = append(compiled.Headers, header)
	}
	if d.Body != nil {
		compiled.Body = plan.DenialBody{ContentType: string(d.Body.ContentType), Template: d.Body.Template}
		if problem := compiled.Body.Problem(); problem != "" {
			c.add(field.Invalid(at.Child("body", "template"), field.OmitValueType{}, problem))
		}
	}
	return compiled
}
