// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"fmt"
	"time"
)

// Scope selects policies: one, all of a Namespace, or all if both members are empty.
type Scope struct {
	Namespace string
	// Policy is "<namespace>/<name>".
	Policy string
}

// KeyName names one key of a policy, for a call on its state.
type KeyName struct {
	// Parts are the parts of the key; nil is the shared budget of a policy without a key.
	Parts []string
	// Hash is the hash of a listed key in place of Parts, else empty.
	Hash string
	// Shared makes an empty part stand for a part that requests lack.
	Shared bool
}

// Validate returns a *FieldError for parts that no key has.
func (n *KeyName) Validate() error {
	if !n.Shared {
		return ValidateKey(n.Parts)
	}
	for i, part := range n.Parts {
		if problem := KeyProblem(part); part != "" && problem != "" {
			return &FieldError{Field: fmt.Sprintf("key[%d]", i), Problem: problem}
		}
	}
	return nil
}

// ListedKey is the key of a caller in a list.
type ListedKey struct {
	// Parts are the parts of the key. A missing part is empty. A part over 255 bytes is "#" and the
	// first 128 bits of its SHA-256, in hex.
	Parts []string
	// Hash stands for the key in logs and in calls on its state.
	Hash string
	// Cut is true if Parts is one part with the beginning of the encoded key, which is too long to be
	// kept.
	Cut bool
}

// BlockedKey is a live block.
type BlockedKey struct {
	Policy string
	Key    ListedKey
	// By is the limit that started the block; empty if an operator did.
	By   string
	Left time.Duration
}

// BlockList is a list of live blocks, those that end last first.
type BlockList struct {
	Blocks []BlockedKey
	// Truncated is true if there are more.
	Truncated bool
}

// Blocks lists live blocks.
type Blocks interface {
	// Blocks returns up to most live blocks of the policies.
	Blocks(ctx context.Context, policies []string, most int) (*BlockList, error)
	// HaveBlocks returns the policies that may have live blocks.
	HaveBlocks(ctx context.Context, policies []string) ([]string, error)
}

// RatePeriod is the time that one sample of Rates covers, RateSamples the number of samples.
const (
	RatePeriod  = 10 * time.Second
	RateSamples = 360
)

// Rates are the decisions of the last hour, as one number for each RatePeriod, the oldest first. Each
// list has RateSamples numbers.
type Rates struct {
	Allowed      []int64
	Denied       []int64
	ShadowDenied []int64 // that a policy in mode Shadow would have denied
	// CandidateDenied and CandidateAllowed are verdicts of limits that only the candidate of the limit
	// denies or allows.
	CandidateDenied  []int64
	CandidateAllowed []int64
}

// NewRates returns rates without decisions.
func NewRates() *Rates {
	list := func() []int64 { return make([]int64, RateSamples) }
	return &Rates{Allowed: list(), Denied: list(), ShadowDenied: list(), CandidateDenied: list(), CandidateAllowed: list()}
}

// DeniedKey counts the denials of a key. The true number is between Count - Error and Count.
type DeniedKey struct {
	Key          ListedKey
	Count, Error int64
}

// PolicyActivity is what the replicas observed about one policy.
type PolicyActivity struct {
	// Policy is "<namespace>/<name>", or "<namespace>/*" where rates are counted by Namespace.
	Policy string
	// Keys are the keys that were denied most often in the last Seconds, those first. A key that is
	// not listed was denied at most Unlisted times.
	Keys     []DeniedKey
	Unlisted int64
	Seconds  int64
	// Rates is nil if nothing was decided in the last hour, or if too many other policies were busier.
	Rates *Rates
}

// Activity is what the replicas observed.
type Activity struct {
	// Policies are sorted by name.
	Policies []PolicyActivity
	// Total has the rates of the whole scope.
	Total Rates
	// End is the end of the last sample of all Rates.
	End time.Time
	// Since is when the replicas began to count without a gap; zero if they have counted for the whole
	// time of Rates.
	Since time.Time
	// Reported are the replicas whose observations are contained, Missing the live ones that did not
	// report in time. A replica whose name is unknown is "unknown".
	Reported, Missing []string
	// LargestError is the largest Error of a key.
	LargestError int64
	// Dropped is the number of denials and blocks that the replicas could not record.
	Dropped int64
}

// Observer returns what the replicas observe about the policies in the scope. The first call may take
// three seconds, until all replicas have reported.
type Observer interface {
	Activity(ctx context.Context, scope Scope) (*Activity, error)
}

// DecisionCounts are the decisions of a policy since the process started.
type DecisionCounts struct {
	Allowed, Denied uint64
	// ShadowDenied counts those that a policy in mode Shadow would have denied.
	ShadowDenied uint64
	// CandidateDenied and CandidateAllowed are as in Rates.
	CandidateDenied, CandidateAllowed uint64
}
