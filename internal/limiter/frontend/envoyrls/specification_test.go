// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// This file is the specification of the wire format: the same conversions, with the messages
// of the generated code.

// readRequest decodes the request with the generated code, after it replaced the bytes of
// strings that are not valid UTF-8.
func readRequest(wire []byte) (*ratelimitv3.RateLimitRequest, error) {
	r := &ratelimitv3.RateLimitRequest{}
	return r, proto.Unmarshal(withUTF8(wire, r.ProtoReflect().Descriptor()), r)
}

// withUTF8 returns the message with a question mark for each invalid byte in its strings. It
// stops at malformed bytes.
func withUTF8(wire []byte, d protoreflect.MessageDescriptor) (out []byte) {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeField(wire)
		if n < 0 {
			return append(out, wire...)
		}
		f := d.Fields().ByNumber(number)
		if kind != protowire.BytesType || f == nil {
			out, wire = append(out, wire[:n]...), wire[n:]
			continue
		}
		_, _, tag := protowire.ConsumeTag(wire)
		value, _ := protowire.ConsumeBytes(wire[tag:])
		if f.Kind() == protoreflect.MessageKind {
			value = withUTF8(value, f.Message())
		} else if f.Kind() == protoreflect.StringKind {
			value = []byte(withQuestionMarks(string(value)))
		}
		out, wire = protowire.AppendBytes(append(out, wire[:tag]...), value), wire[n:]
	}
	return out
}

func withQuestionMarks(text string) string {
	var b strings.Builder
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// checkOf converts the request into a check. It returns a *limiter.FieldError for a
// malformed request.
func checkOf(r *ratelimitv3.RateLimitRequest) (*limiter.Check, error) {
	switch n := len(r.GetDescriptors()); {
	case r.GetDomain() == "":
		return nil, &limiter.FieldError{Field: "domain", Problem: "must not be empty"}
	case n == 0:
		return nil, &limiter.FieldError{Field: "descriptors", Problem: "must not be empty"}
	case n > limiter.MaxDescriptors: // before anything is allocated for them
		return nil, &limiter.FieldError{Field: "descriptors", Problem: fmt.Sprintf("has %d elements, at most %d", n, limiter.MaxDescriptors)}
	}
	hits, err := hitsOf("hits_addend", uint64(r.GetHitsAddend()))
	if err != nil {
		return nil, err
	}
	hits.Peek = false // on the request, 0 is the default and means 1
	check := &limiter.Check{
		Attributes: plan.Attributes{Domain: r.GetDomain(), Descriptors: make([]plan.Descriptor, len(r.GetDescriptors()))},
		Hits:       make([]limiter.Hits, len(r.GetDescriptors())),
	}
	if check.Attributes.Targets, err = targetsOf(r); err != nil {
		return nil, err
	}
	if check.ResponseCode, err = responseCodeOf(r); err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for i, d := range r.GetDescriptors() {
		var named []string
		check.Attributes.Descriptors[i], named = descriptorOf(d)
		for _, name := range named {
			ids[name] = true
			_, id, _ := strings.Cut(name, "=")
			check.ReservationID = limiter.EnvoyIDPrefix + id
		}
		if len(ids) > 1 {
			return nil, &limiter.FieldError{Field: fmt.Sprintf("descriptors[%d]", i), Problem: "conflicts with an earlier entry: all entries must name the same reservation and action"}
		}
		if check.Hits[i], err = descriptorHits(d, hits, i); err != nil {
			return nil, err
		}
		if len(named) > 0 {
			check.Hits[i] = reserving(check.Hits[i], named[0])
		}
	}
	return check, nil
}

// reserving returns hits that do what the entry "name=id" demands.
func reserving(hits limiter.Hits, entry string) limiter.Hits {
	if strings.HasPrefix(entry, "weir_reservation=") {
		hits.Action = limiter.HitsReserve
		return hits
	}
	hits.Action = limiter.HitsCommit
	if hits.Peek {
		hits.Cost, hits.Peek = 0, false
	}
	return hits
}

// descriptorOf returns the entries, and apart from them those about a reservation as "key=value".
func descriptorOf(d *commonv3.RateLimitDescriptor) (entries plan.Descriptor, reservation []string) {
	entries = make(plan.Descriptor, 0, len(d.GetEntries()))
	for _, e := range d.GetEntries() {
		if key := e.GetKey(); key == "weir_reservation" || key == "weir_commit" {
			reservation = append(reservation, key+"="+plan.TrimValue(e.GetValue()))
			continue
		}
		if slices.Contains([]string{"weir_route", "weir_gateway", "weir_response_code"}, e.GetKey()) {
			continue
		}
		entries = append(entries, plan.Entry{Key: e.GetKey(), Value: plan.TrimValue(e.GetValue())})
	}
	return entries, reservation
}

// responseCodeOf returns the status of the response that the entries name, 0 without one.
func responseCodeOf(r *ratelimitv3.RateLimitRequest) (code int, err error) {
	named := false
	for i, d := range r.GetDescriptors() {
		for _, e := range d.GetEntries() {
			if e.GetKey() != "weir_response_code" {
				continue
			}
			text, problem := plan.TrimValue(e.GetValue()), ""
			n, err := strconv.Atoi(text)
			switch {
			case err != nil || strings.Trim(text, "0123456789") != "" || n > 999:
				problem = "must be 0..999"
			case named && n != code:
				problem = "differs from an earlier entry"
			}
			if problem != "" {
				return 0, &limiter.FieldError{Field: fmt.Sprintf("descriptors[%d].weir_response_code", i), Problem: problem}
			}
			code, named = n, true
		}
	}
	return code, nil
}

// targetsOf returns the Gateways and routes that the entries name, each once.
func targetsOf(r *ratelimitv3.RateLimitRequest) (targets []plan.Target, err error) {
	for i, d := range r.GetDescriptors() {
		for _, e := range d.GetEntries() {
			text, form := plan.TrimValue(e.GetValue()), plan.TargetForm
			switch e.GetKey() {
			case "weir_route":
			case "weir_gateway":
				text, form = "Gateway/"+text, "must be <namespace>/<name> of a Gateway, and perhaps /<listener>"
			default:
				continue
			}
			target, err := plan.ParseTarget(text)
			if err == nil && !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
			if len(targets) > plan.MaxTargets {
				err, form = errors.New(""), "is one of more than 16 targets"
			}
			if err != nil {
				return nil, &limiter.FieldError{Field: fmt.Sprintf("descriptors[%d].%s", i, e.GetKey()), Problem: form}
			}
		}
	}
	return targets, nil
}

// descriptorHits returns the hits of the i-th descriptor: its own hits, or else the hits of the
// request.
func descriptorHits(d *commonv3.RateLimitDescriptor, hits limiter.Hits, i int) (own limiter.Hits, err error) {
	at := fmt.Sprintf("descriptors[%d]", i)
	if d.GetIsNegativeHits() {
		// A client that could return units could spend without end.
		return own, &limiter.FieldError{Field: at + ".is_negative_hits", Problem: "is not supported"}
	}
	own = hits
	if addend := d.GetHitsAddend(); addend != nil {
		if own, err = hitsOf(at+".hits_addend", addend.GetValue()); err != nil {
			return own, err
		}
	}
	own.Limit = requestedLimit(d.GetLimit())
	return own, nil
}

// hitsOf returns the hits for a number. 0 hits peek whether one unit would be
// admitted.
func hitsOf(field string, hits uint64) (limiter.Hits, error) {
	if hits > plan.MaxCost {
		return limiter.Hits{}, &limiter.FieldError{Field: field, Problem: fmt.Sprintf("must be at most %d", plan.MaxCost)}
	}
	return limiter.Hits{Cost: max(1, int64(hits)), Peek: hits == 0}, nil
}

// windows maps the units of Envoy to windows. MONTH and YEAR are longer than any window.
var windows = map[typev3.RateLimitUnit]time.Duration{
	typev3.RateLimitUnit_SECOND: time.Second,
	typev3.RateLimitUnit_MINUTE: time.Minute,
	typev3.RateLimitUnit_HOUR:   time.Hour,
	typev3.RateLimitUnit_DAY:    24 * time.Hour,
}

// requestedLimit returns the limit of the descriptor, or nil if it has none. A unit that is
// not in windows matches no limit of a policy; the engine ignores it and counts it.
func requestedLimit(l *commonv3.RateLimitDescriptor_RateLimitOverride) *limiter.RequestedLimit {
	if l == nil {
		return nil
	}
	return &limiter.RequestedLimit{Units: int64(l.GetRequestsPerUnit()), Window: windows[l.GetUnit()]}
}

// responseOf returns the response for the decision.
func responseOf(d *limiter.Decision, legacyHeaders bool) *ratelimitv3.RateLimitResponse {
	a := answer.New(d, answer.Options{BodyOnDenialOnly: true, DenyStatus: 429, LegacyHeaders: legacyHeaders})
	defer a.Release()
	r := &ratelimitv3.RateLimitResponse{
		OverallCode:          codeOf(d.Allowed),
		Statuses:             make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(d.Descriptors)),
		ResponseHeadersToAdd: headersOf(a.Headers),
		RawBody:              bytes.Clone(a.Body),
	}
	for i := range d.Descriptors {
		r.Statuses[i] = statusOfDescriptor(&d.Descriptors[i])
	}
	return r
}

func codeOf(allowed bool) ratelimitv3.RateLimitResponse_Code {
	if allowed {
		return ok
	}
	return over
}

func headersOf(headers []answer.Header) []*corev3.HeaderValue {
	values := make([]*corev3.HeaderValue, len(headers))
	for i, h := range headers {
		values[i] = &corev3.HeaderValue{Key: h.Name, Value: h.Value}
	}
	return values
}

func statusOfDescriptor(state *limiter.DescriptorState) *ratelimitv3.RateLimitResponse_DescriptorStatus {
	s := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: codeOf(state.Allowed)}
	l := state.Tightest
	if l == nil {
		return s
	}
	s.CurrentLimit = currentLimit(l)
	s.LimitRemaining = uint32(min(answer.Available(l), math.MaxUint32))
	reset := l.ResetAfter
	if state.RetryAfter > 0 {
		reset = state.RetryAfter
	}
	s.DurationUntilReset = durationpb.New(time.Duration(answer.RoundUp(reset, time.Second)) * time.Second)
	return s
}

// units maps windows to the units of Envoy.
var units = map[time.Duration]ratelimitv3.RateLimitResponse_RateLimit_Unit{
	time.Second:        ratelimitv3.RateLimitResponse_RateLimit_SECOND,
	time.Minute:        ratelimitv3.RateLimitResponse_RateLimit_MINUTE,
	time.Hour:          ratelimitv3.RateLimitResponse_RateLimit_HOUR,
	24 * time.Hour:     ratelimitv3.RateLimitResponse_RateLimit_DAY,
	7 * 24 * time.Hour: ratelimitv3.RateLimitResponse_RateLimit_WEEK,
}

// periodUnits maps the periods of calendars to the units of Envoy.
var periodUnits = map[plan.Period]ratelimitv3.RateLimitResponse_RateLimit_Unit{
	plan.PeriodHour:  ratelimitv3.RateLimitResponse_RateLimit_HOUR,
	plan.PeriodDay:   ratelimitv3.RateLimitResponse_RateLimit_DAY,
	plan.PeriodWeek:  ratelimitv3.RateLimitResponse_RateLimit_WEEK,
	plan.PeriodMonth: ratelimitv3.RateLimitResponse_RateLimit_MONTH,
}

// currentLimit returns the limit under the name it has in the RateLimit headers. The unit of
// a window that is not in units is UNKNOWN. A limit with a burst shows its rate, except for a
// requested limit of 0.
func currentLimit(l *limiter.LimitState) *ratelimitv3.RateLimitResponse_RateLimit {
	perUnit := l.Quota
	if (l.Algorithm == plan.TokenBucket || l.Algorithm == plan.GCRA) && perUnit != 0 {
		perUnit = l.Threshold
	}
	unit := units[l.Window]
	if l.Calendar != nil {
		unit = periodUnits[l.Calendar.Period]
	}
	return &ratelimitv3.RateLimitResponse_RateLimit{
		Name:            string(answer.AppendItemName(nil, l)),
		RequestsPerUnit: uint32(min(perUnit, math.MaxUint32)),
		Unit:            unit,
	}
}
