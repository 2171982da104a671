// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// response is an encoded RateLimitResponse.
type response struct{ buffers [1]mem.Buffer }

// MarshalWire returns the response in the protobuf encoding.
func (r *response) MarshalWire() mem.BufferSlice { return r.buffers[:] }

const (
	// responseBytes is the memory for a response: more than the size up to which gRPC does not
	// return memory to its pool.
	responseBytes = 2 << 10
	// maxPooledBytes keeps the memory of rare large responses out of the pool.
	maxPooledBytes = 64 << 10
)

// responsePool implements mem.BufferPool for responses, which gRPC frees after it has sent them.
type responsePool struct{ buffers sync.Pool }

var pool = &responsePool{buffers: sync.Pool{New: func() any { return new(make([]byte, 0, responseBytes)) }}}

// Get returns an empty buffer with at least the capacity.
func (p *responsePool) Get(capacity int) *[]byte {
	b := p.buffers.Get().(*[]byte)
	*b = slices.Grow((*b)[:0], capacity)
	return b
}

// Put returns a buffer to the pool.
func (p *responsePool) Put(b *[]byte) {
	if cap(*b) <= maxPooledBytes {
		p.buffers.Put(b)
	}
}

// responseOf returns the response for the decision. The body of a denial names status 429
// whatever the reason, because Envoy sends that status for every denial.
func (s *Service) responseOf(d *limiter.Decision) *response {
	a := answer.New(d, answer.Options{
		BodyOnDenialOnly: true, ForClients: true, DenyStatus: http.StatusTooManyRequests, LegacyHeaders: s.options.Frontend.LegacyHeaders,
	})
	defer a.Release()
	wire := pool.Get(responseBytes)
	*wire = appendResponse(*wire, d, a)
	return &response{buffers: [1]mem.Buffer{mem.NewBuffer(wire, pool)}}
}

// The functions below append messages in the protobuf encoding. The numbers of fields are in
// https://github.com/envoyproxy/envoy/blob/main/api/envoy/service/ratelimit/v3/rls.proto.

func appendResponse(b []byte, d *limiter.Decision, a *answer.Answer) []byte {
	b = appendNumber(b, 1, codeOf(d.Allowed))
	for i := range d.Descriptors {
		var start int
		b, start = openMessage(b, 2)
		b = closeMessage(appendStatus(b, &d.Descriptors[i]), start)
	}
	for _, h := range a.Headers {
		var start int
		b, start = openMessage(b, 3)
		b = appendText(b, 1, h.Name)
		b = closeMessage(appendText(b, 2, h.Value), start)
	}
	if len(a.Body) > 0 {
		b = protowire.AppendBytes(appendTag(b, 5, protowire.BytesType), a.Body)
	}
	return b
}

// codeOf returns the number of a RateLimitResponse.Code.
func codeOf(allowed bool) uint64 {
	if allowed {
		return uint64(ratelimitv3.RateLimitResponse_OK)
	}
	return uint64(ratelimitv3.RateLimitResponse_OVER_LIMIT)
}

// appendStatus appends the fields of a DescriptorStatus.
func appendStatus(b []byte, state *limiter.DescriptorState) []byte {
	b = appendNumber(b, 1, codeOf(state.Allowed))
	l := state.Tightest
	if l == nil {
		return b
	}
	b, start := openMessage(b, 2)
	b = closeMessage(appendLimit(b, l), start)
	b = appendNumber(b, 3, uint32Of(answer.Available(l)))
	reset := l.ResetAfter
	if state.RetryAfter > 0 {
		reset = state.RetryAfter
	}
	b, start = openMessage(b, 4)
	b = appendNumber(b, 1, uint64(answer.RoundUp(reset, time.Second))) //nolint:gosec // protobuf encodes an int64 this way
	return closeMessage(b, start)
}

// appendLimit appends the fields of a RateLimit. Its name is the one in the RateLimit
// headers.
func appendLimit(b []byte, l *limiter.LimitState) []byte {
	perUnit := l.Quota
	if l.Algorithm.Refills() && l.Quota > 0 { // 0 if a limit of 0 is requested
		perUnit = l.Threshold // the quota is the burst
	}
	b = appendNumber(b, 1, uint32Of(perUnit))
	b = appendNumber(b, 2, unitOf(l))
	b, start := openMessage(b, 3) // a string is encoded as a message is
	return closeMessage(answer.AppendItemName(b, l), start)
}

// unitOf returns the number of the RateLimit.Unit of the window or of the calendar. It is UNKNOWN
// for a window without a unit.
func unitOf(l *limiter.LimitState) uint64 {
	window := l.Window
	if l.Calendar != nil {
		if l.Calendar.Period == plan.PeriodMonth {
			return uint64(ratelimitv3.RateLimitResponse_RateLimit_MONTH)
		}
		window = l.Calendar.Nominal()
	}
	switch window {
	case time.Second:
		return uint64(ratelimitv3.RateLimitResponse_RateLimit_SECOND)
	case time.Minute:
		return uint64(ratelimitv3.RateLimitResponse_RateLimit_MINUTE)
	case time.Hour:
		return uint64(ratelimitv3.RateLimitResponse_RateLimit_HOUR)
	case 24 * time.Hour:
		return uint64(ratelimitv3.RateLimitResponse_RateLimit_DAY)
	case 7 * 24 * time.Hour:
		return uint64(ratelimitv3.RateLimitResponse_RateLimit_WEEK)
	default:
		return uint64(ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN)
	}
}

// uint32Of returns the units as a uint32 field holds them: the largest uint32 for more.
func uint32Of(units int64) uint64 {
	return uint64(max(0, min(units, math.MaxUint32)))
}

// appendNumber appends an integer field, which is left out if it is 0.
func appendNumber(b []byte, number protowire.Number, value uint64) []byte {
	if value == 0 {
		return b
	}
	return appendVarint(appendTag(b, number, protowire.VarintType), value)
}

// appendText appends a string field, which is left out if it is empty.
func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	b = appendVarint(appendTag(b, number, protowire.BytesType), uint64(len(text)))
	return append(b, text...)
}

// openMessage starts a field that holds a message. It returns the position of the message,
// for closeMessage.
func openMessage(b []byte, number protowire.Number) ([]byte, int) {
	b = append(appendTag(b, number, protowire.BytesType), 0) // most lengths need one byte
	return b, len(b)
}

// closeMessage ends the message that starts at the position and sets its length.
func closeMessage(b []byte, start int) []byte {
	length := len(b) - start
	if length < oneByte {
		b[start-1] = byte(length) //nolint:gosec // less than oneByte
		return b
	}
	prefix := protowire.AppendVarint(nil, uint64(length))
	return slices.Replace(b, start-1, start, prefix...)
}

// appendTag appends the tag of a field with a number up to 15, as all of these have: one byte.
func appendTag(b []byte, number protowire.Number, kind protowire.Type) []byte {
	return append(b, byte(protowire.EncodeTag(number, kind))) //nolint:gosec // see above
}

// oneByte is the smallest number whose encoding needs more than one byte.
const oneByte = 0x80

// appendVarint appends an integer. The compiler inlines it for short lengths and small numbers.
func appendVarint(b []byte, value uint64) []byte {
	if value < oneByte {
		return append(b, byte(value))
	}
	return protowire.AppendVarint(b, value)
}
