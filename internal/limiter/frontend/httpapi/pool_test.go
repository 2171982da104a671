// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The engine may still use a check after an error and after a degraded decision.
func TestChecksInUseAreNotReused(t *testing.T) {
	for name, outcome := range map[string]struct {
		decision *limiter.Decision
		err      error
	}{
		"an error":            {nil, errors.New("any")},
		"a degraded decision": {&limiter.Decision{Allowed: true, Degraded: plan.FailOpen}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var checks []*limiter.Check
			engine := &fakeEngine{decide: func(_ context.Context, check *limiter.Check) (*limiter.Decision, error) {
				checks = append(checks, check)
				return outcome.decision, outcome.err
			}}
			for range 100 {
				sendCheck(engine, `{"policies":["a/b"],"key":"k","attributes":{"headers":{"a":"b"}}}`)
			}
			for i, check := range checks {
				g.Expect(check).To(Equal(&limiter.Check{
					Policies: []string{"a/b"}, Key: []string{"k"}, Cost: 1,
					Attributes: plan.Attributes{Headers: map[string]string{"a": "b"}},
				}))
				g.Expect(checks[:i]).NotTo(ContainElement(BeIdenticalTo(check)))
			}
		})
	}
}

func TestRequestsShareNothing(t *testing.T) {
	g := NewWithT(t)
	engine := &fakeEngine{}
	for range 10 {
		sendCheck(engine, `{"policies":["a/b","a/c"],"key":["k","l"],"cost":3,"peek":true,"attributes":{"host":"h","headers":{"a":"b"}}}`)
		sendCheck(engine, `{"attributes":{}}`)
		g.Expect(engine.received).To(Equal(&limiter.Check{Cost: 1}))
		sendCheck(engine, `{"attributes":{"headers":{"c":"d"}}}`)
		g.Expect(engine.received.Attributes.Headers).To(Equal(map[string]string{"c": "d"}))
	}
}
