// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import "time"

// The answers of the API, as far as pages show them. package httpapi documents the members.

type policiesAnswer struct {
	Version  string
	Policies []struct {
		Name   string
		Mode   string
		Limits []limitSummary
	}
	Replicas []replica
	Revision int64
	NotReady *struct {
		Count    int
		Policies []struct{ Name, Reason string }
	}
}

type replica struct {
	Name     string
	Revision int64
	Skips    int
}

type limitSummary struct {
	Name, Algorithm  string
	Window, Calendar string // one of them
	Threshold        int64
}

type processAnswer struct {
	Version string
	Redis   *struct {
		Servers, Evictions, Problems []string
		OldestTested                 string
		MemoryUse                    float64
	}
	Certificates []struct {
		Name    string
		Expires time.Time
	}
}

type listedKey struct {
	Key         []string
	KeyHash     string
	Masked, Cut bool
}

type blocksAnswer struct {
	Blocks         []blockedKey
	Truncated      bool
	HiddenPolicies int
}

type blockedKey struct {
	listedKey

	Policy, Limit string
	LeftMs        int64
}

type counts struct{ Allowed, Denied, ShadowDenied int64 }

// AllDenied includes what Shadow would have denied.
func (c counts) AllDenied() int64 { return c.Denied + c.ShadowDenied }

type sums struct{ LastMinute, Last5Minutes, LastHour counts }

type topAnswer struct {
	Policies []struct {
		Policy, Mode string
		Decisions    *sums
		Keys         []topKey
		Unlisted     int64
		Seconds      int64
	}
	Total          sums
	LargestError   int64
	Dropped        int64
	Missing        []string
	HiddenPolicies int
}

type topKey struct {
	listedKey

	Policy       string `json:"-"`
	Count, Error int64
}

// Fewest is the smallest true number of denials.
func (k topKey) Fewest() int64 { return k.Count - k.Error }

type samples struct{ Allowed, Denied, ShadowDenied []int64 }

type ratesAnswer struct {
	EndTime       time.Time
	PeriodSeconds int
	Total         samples
	Policies      []struct {
		samples

		Policy string
	}
	Reported, Missing []string
	Since             *time.Time // nil if the whole hour is counted
	HiddenPolicies    int
}

type stateAnswer struct {
	Policy, Override, Action, BlockedBy string
	Key                                 []string // in place of the given one; nil if that was used
	Blocked                             bool
	BlockLeftMs                         int64
	Limits                              []limitState
}

type limitState struct {
	Limit, Override            string
	Allowed, Shadow, Overflow  bool
	Used, Threshold, Remaining int64
	RetryAfterMs               *int64 // nil if waiting does not help
	RemainingAfterWaiting      int64
	ResetAfterMs               int64
	SuppressionFactor          float64
	Algorithm                  string // only in explanations, as the following
	Window, Calendar           string // one of them
}

type explainAnswer struct {
	Decision struct {
		Allowed                                   bool
		Reason, Policy, Limit, Override, Degraded string
		RetryAfterMs                              int64
	}
	Policies         []explainedPolicy
	HiddenPolicies   int
	NearMisses       []nearMiss
	HiddenNearMisses int
	MoreNearMisses   int
}

type explainedPolicy struct {
	Policy, Mode, Reason, Limit, KeyHash, Override, Action, BlockedBy string
	Match, Descriptor                                                 *int
	Allowed, Blocked                                                  bool
	BlockLeftMs                                                       int64
	Key                                                               []struct{ Type, Name, Value string }
	Limits                                                            []limitState
}

type nearMiss struct {
	Policy, Reason, Field, Detail string
	Match                         *int
	Wants, Got                    []string
	Unverified                    bool
}

type changeAnswer struct {
	Found  bool
	Lifted int
}

// Why returns why the policy does not apply.
func (m nearMiss) Why() string {
	unverified := ""
	if m.Unverified {
		unverified = "; its expression was not evaluated"
	}
	switch m.Reason {
	case "Disabled":
		return "its mode is Disabled" + unverified
	case "Mismatch":
		return "another value of " + m.Field + unverified
	case "NotLoaded":
		return "not loaded: " + m.Detail
	case "ByNameOnly":
		return "has no matches: applies only by name"
	}
	return m.Reason
}
