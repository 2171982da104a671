// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/reference"
)

const (
	ok   = ratelimitv3.RateLimitResponse_OK
	over = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

// countingStore decides with the reference model, or fails with err.
type countingStore struct {
	engine.Store

	model reference.Model
	now   time.Time
	err   error
	calls int
}

func (s *countingStore) Evaluate(_ context.Context, call *store.Call) (*store.Reply, error) {
	s.calls++
	if s.err != nil {
		return nil, s.err
	}
	return s.model.Evaluate(call, s.now), nil
}

// wired calls a service in the encoding of the wire, as the gRPC server does. It implements
// grpc.ServiceRegistrar.
type wired struct {
	service     any
	description *grpc.ServiceDesc
	method      grpc.MethodHandler
	interceptor grpc.UnaryServerInterceptor
}

func newWired(s *envoyrls.Service) *wired {
	w := &wired{}
	s.Register(w)
	return w
}

func (w *wired) RegisterService(d *grpc.ServiceDesc, service any) {
	w.service, w.description = service, d
	w.method = d.Methods[0].Handler
}

// call sends an encoded request and returns the encoded response.
func (w *wired) call(ctx context.Context, wire []byte) (mem.BufferSlice, error) {
	decode := func(message any) error {
		if err := message.(interface{ UnmarshalWire(wire []byte) error }).UnmarshalWire(wire); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		return nil
	}
	response, err := w.method(w.service, ctx, decode, w.interceptor)
	if err != nil {
		return nil, err
	}
	return response.(interface{ MarshalWire() mem.BufferSlice }).MarshalWire(), nil
}

// ShouldRateLimit sends the request, in the encoding and through the decoder of the generated
// code.
func (w *wired) ShouldRateLimit(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	wire, err := proto.Marshal(withAnyBytes(r))
	if err != nil {
		return nil, err
	}
	encoded, err := w.call(ctx, wire)
	if err != nil {
		return nil, err
	}
	defer encoded.Free()
	response := &ratelimitv3.RateLimitResponse{}
	return response, proto.Unmarshal(encoded.Materialize(), response)
}

// withAnyBytes returns the request in a form that the generated code encodes although values
// are not valid UTF-8: it copies unknown fields as they are.
func withAnyBytes(r *ratelimitv3.RateLimitRequest) *ratelimitv3.RateLimitRequest {
	r = proto.CloneOf(r)
	for _, d := range r.GetDescriptors() {
		for _, e := range d.GetEntries() {
			if !utf8.ValidString(e.GetValue()) {
				e.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), e.GetValue()))
				e.Value = ""
			}
		}
	}
	return r
}

// frontend is the service with an engine on a model store.
type frontend struct {
	*wired
	t        *testing.T
	store    *countingStore
	registry *prometheus.Registry
}

func newFrontend(t *testing.T, plans ...*plan.Plan) *frontend {
	t.Helper()
	d := &frontend{t: t, store: &countingStore{now: time.Unix(1_900_000_000, 0)}, registry: prometheus.NewRegistry()}
	e := engine.New(engine.Options{
		Store: d.store, Registerer: d.registry, Logger: slog.New(slog.DiscardHandler),
	})
	if plans != nil {
		e.Use(index.NewSnapshot(1, plans))
	}
	d.wired = newWired(envoyrls.New(envoyrls.Options{Engine: e}))
	return d
}

// send sends a valid request.
func (d *frontend) send(r *ratelimitv3.RateLimitRequest) *ratelimitv3.RateLimitResponse {
	d.t.Helper()
	response, err := d.ShouldRateLimit(d.t.Context(), r)
	NewWithT(d.t).Expect(err).NotTo(HaveOccurred())
	return response
}

// count returns the number of series of a metric.
func (d *frontend) count(name string) int {
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
		match.Descriptors = append(match.Descriptors, plan.EntryMatch{Key: key})
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

// codesOf returns the overall code, then the code of each descriptor.
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
