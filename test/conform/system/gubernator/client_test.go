// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gubernator_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"

	"github.com/weir-dev/weir/test/conform/system/gubernator"
)

// The messages, against bytes encoded by hand from the definition.
func TestEncode(t *testing.T) {
	one := gubernator.Request{Name: "denied", Key: "user-0", Hits: 1, Limit: 1, Duration: 24 * time.Hour}
	g := NewWithT(t)
	g.Expect(gubernator.Encode([]gubernator.Request{one})).To(Equal([]byte(
		"\x0a\x19" + "\x0a\x06denied" + "\x12\x06user-0" + "\x18\x01" + "\x20\x01" + "\x28\x80\xb8\x99\x29")))
	one.Global = true
	g.Expect(gubernator.Encode([]gubernator.Request{one})).To(HaveSuffix("\x38\x02"))
}

// reply is a connection on which every call has the same reply.
type reply struct {
	grpc.ClientConnInterface
	message string
}

func (r reply) Invoke(_ context.Context, _ string, _, message any, _ ...grpc.CallOption) error {
	return gubernator.Codec{}.Unmarshal([]byte(r.message), message)
}

func TestGetRateLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		reply string
		want  gubernator.Answer
		error string
	}{
		"an absent status":     {reply: "\x0a\x02\x10\x01"},
		"UNDER_LIMIT":          {reply: "\x0a\x04\x08\x00\x10\x01"},
		"OVER_LIMIT":           {reply: "\x0a\x04\x08\x01\x10\x01", want: gubernator.Answer{Over: true}},
		"a reset time":         {reply: "\x0a\x05\x08\x01\x20\x88\x27", want: gubernator.Answer{Over: true, Reset: time.UnixMilli(5000)}},
		"an error":             {reply: "\x0a\x03\x2a\x01x", error: "x"},
		"no answer":            {reply: "", error: "0 answers to 1 requests"},
		"a message that ended": {reply: "\x0a\x7f", error: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			answers, err := gubernator.NewClient(reply{message: tc.reply}).GetRateLimits(t.Context(), make([]gubernator.Request, 1))
			if tc.error != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.error)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answers).To(ConsistOf(tc.want))
		})
	}
}

func TestHealthCheck(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gubernator.NewClient(reply{message: "\x0a\x07healthy\x18\x04"}).HealthCheck(t.Context())).To(Equal(4))
	_, err := gubernator.NewClient(reply{message: "\x0a\x09unhealthy\x18\x04"}).HealthCheck(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("unhealthy")))
}
