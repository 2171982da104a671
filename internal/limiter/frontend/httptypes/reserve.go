// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
)

// Committed is the answer of POST /v1/commit.
type Committed struct {
	// Committed is false if no hold was open.
	Committed bool              `json:"committed"`
	Policies  []CommittedPolicy `json:"policies"`
	Revision  int64             `json:"revision"`
}

// CommittedPolicy is one policy of a reservation that ended.
type CommittedPolicy struct {
	Policy    string              `json:"policy"`
	Override  string              `json:"override,omitempty"`
	Exception string              `json:"exception,omitempty"`
	Committed bool                `json:"committed"`
	Gone      bool                `json:"gone,omitempty"` // the policy no longer exists
	Cost      int64               `json:"cost"`
	Estimate  int64               `json:"estimate"`
	Limits    []answer.LimitState `json:"limits"`
}

// Renewed is the answer of POST /v1/renew.
type Renewed struct {
	Renewed  bool                    `json:"renewed"`
	Policies []limiter.RenewedPolicy `json:"policies"`
	Revision int64                   `json:"revision"`
}

// Charged is the answer of POST /v1/charge.
type Charged struct {
	// Charged is false if the ID was charged before.
	Charged  bool                `json:"charged"`
	Limits   []answer.LimitState `json:"limits"`
	Revision int64               `json:"revision"`
}
