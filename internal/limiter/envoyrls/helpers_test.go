// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/envoyrls"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

const (
	ok   = ratelimitv3.RateLimitResponse_OK
	over = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

// store decides with the reference model, or fails with err.
type store struct {
	engine.Store

	model script.Model
	now   time.Time
	err   error
	calls int
}

func (s *store) Evaluate(_ context.Context, call *script.Call) (*script.Reply, error) {
	s.calls++
	if s.err != nil {
		return nil, s.err
	}
	return s.model.Evaluate(call, s.now), nil
}

// door is the service with an engine on a model store.
type door struct {
	*envoyrls.Service
	t        *testing.T
	store    *store
	registry *prometheus.Registry
}

func newDoor(t *testing.T, plans ...*plan.Plan) *door {
	t.Helper()
	d := &door{t: t, store: &store{now: time.Unix(1_900_000_000, 0)}, registry: prometheus.NewRegistry()}
	e := engine.New(engine.Options{
		Store: d.store, Registerer: d.registry, Logger: slog.New(slog.DiscardHandler),
	})
	if plans != nil {
		e.Use(plan.NewSnapshot(1, plans))
	}
	d.Service = envoyrls.New(envoyrls.Options{Engine: e})
	return d
}

// send sends a valid request.
func (d *door) send(r *ratelimitv3.RateLimitRequest) *ratelimitv3.RateLimitResponse {
	d.t.Helper()
	response, err := d.ShouldRateLimit(d.t.Context(), r)
	NewWithT(d.t).Expect(err).NotTo(HaveOccurred())
	return response
}

// count returns the number of series of a metric.
func (d *door) count(name string) int {
	n, err := testutil.GatherAndCount(d.registry, name)
	NewWithT(d.t).Expect(err).NotTo(HaveOccurred())
	return n
}

// makePlan returns a plan that matches descriptors of the domain "edge" with all the keys. Its
// key is the value of the first.
func makePlan(name string, keys []string, limits ...plan.Limit) *plan.Plan {
	match := plan.Match{Domain: "edge"}
	p := &plan.Plan{
		Namespace: "shop", Name: name, Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare,
		Counting: plan.CountAdmitted, DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Denial: plan.Denial{Code: "Slow", Message: "Slow down."}, Limits: limits,
	}
	for _, key := range keys {
		match.Descriptors = append(match.Descriptors, plan.Entry{Key: key})
	}
	if len(keys) > 0 {
		p.Key = []plan.KeyPart{{Type: plan.KeyDescriptor, Descriptor: keys[0]}}
	}
	p.Matches = []plan.Match{match}
	return p
}

func fixed(name string, threshold int64, window time.Duration) plan.Limit {
	return plan.Limit{Name: name, Algorithm: plan.FixedWindow, Threshold: threshold, WindowMillis: window.Milliseconds()}
}

// descriptor returns a descriptor with an entry for each "key=value" word.
func descriptor(words string, edits ...func(*commonv3.RateLimitDescriptor)) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func hits(n uint64) func(*commonv3.RateLimitDescriptor) {
	return func(d *commonv3.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(n) }
}

func limit(n uint32, unit typev3.RateLimitUnit) func(*commonv3.RateLimitDescriptor) {
	return func(d *commonv3.RateLimitDescriptor) {
		d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	}
}

func request(descriptors ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: "edge", Descriptors: descriptors}
}

// codesOf returns the overall code, then that of each descriptor.
func codesOf(r *ratelimitv3.RateLimitResponse) []ratelimitv3.RateLimitResponse_Code {
	all := []ratelimitv3.RateLimitResponse_Code{r.GetOverallCode()}
	for _, s := range r.GetStatuses() {
		all = append(all, s.GetCode())
	}
	return all
}

// remaining returns the remaining units of each descriptor.
func remaining(r *ratelimitv3.RateLimitResponse) []uint32 {
	var all []uint32
	for _, s := range r.GetStatuses() {
		all = append(all, s.GetLimitRemaining())
	}
	return all
}

func header(r *ratelimitv3.RateLimitResponse, name string) string {
	for _, h := range r.GetResponseHeadersToAdd() {
		if h.GetKey() == name {
			return h.GetValue()
		}
	}
	return ""
}
