// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// keyList is a summary: keys with their counts, and the most that any other key may have occurred.
type keyList struct {
	keys     []keyPart
	unlisted int64
}

// mergeKeys returns the summary of several streams from their summaries. Where a list lacks a key, the
// key may have occurred as often as any that is not listed: that is added to its count and its error.
// So a count remains an upper bound, and the count less the error a lower bound.
func mergeKeys(lists ...keyList) (keys []keyPart, unlisted int64) {
	merged := map[string]*keyPart{}
	listed := map[string]int64{} // the unlisted counts of the lists that contain the key
	for _, l := range lists {
		unlisted += l.unlisted
		for _, k := range l.keys {
			if merged[k.Key] == nil {
				merged[k.Key] = &keyPart{Key: k.Key, Length: k.Length}
			}
			merged[k.Key].Count += k.Count
			merged[k.Key].Error += k.Error
			listed[k.Key] += l.unlisted
		}
	}
	for key, k := range merged {
		k.Count += unlisted - listed[key]
		k.Error += unlisted - listed[key]
		keys = append(keys, *k)
	}
	slices.SortFunc(keys, func(a, b keyPart) int {
		return cmp.Or(cmp.Compare(b.Count-b.Error, a.Count-a.Error), cmp.Compare(b.Count, a.Count), strings.Compare(a.Key, b.Key))
	})
	if len(keys) > summarySize {
		for _, k := range keys[summarySize:] {
			unlisted = max(unlisted, k.Count)
		}
		keys = keys[:summarySize]
	}
	return keys, unlisted
}

// merge adds up the parts of all replicas within the scope.
func merge(parts []*part, scope string) *limiter.Activity {
	a := &limiter.Activity{Total: *limiter.NewRates()}
	slot := int64(0)
	for _, p := range parts {
		slot = max(slot, p.Slot)
	}
	a.End = time.Unix(slot*int64(limiter.RatePeriod/time.Second), 0).UTC()
	lists, policies := map[string][]keyList{}, map[string]*limiter.PolicyActivity{}
	for _, p := range parts {
		a.Dropped += p.Dropped
		if scope == "" {
			addRates(&a.Total, p.Total, p.TotalCandidates, slot-p.Slot)
		}
		for i := range p.Policies {
			of := &p.Policies[i]
			if !contains(scope, of.Policy) {
				continue
			}
			if policies[of.Policy] == nil {
				policies[of.Policy] = &limiter.PolicyActivity{Policy: of.Policy}
			}
			policies[of.Policy].Seconds = max(policies[of.Policy].Seconds, p.Seconds)
			lists[of.Policy] = append(lists[of.Policy], keyList{keys: of.Keys, unlisted: of.Unlisted})
			policies[of.Policy].Rates = ratesWith(policies[of.Policy].Rates, of, slot-p.Slot)
			if scope != "" {
				addRates(&a.Total, of.Rates, of.Candidates, slot-p.Slot)
			}
		}
	}
	for _, policy := range slices.Sorted(maps.Keys(policies)) {
		of := policies[policy]
		keys, unlisted := mergeKeys(lists[policy]...)
		a.LargestError = max(a.LargestError, setKeys(of, keys, unlisted))
		a.Policies = append(a.Policies, *of)
	}
	return a
}

// ratesWith adds the rates of the part to the rates, which may be nil.
func ratesWith(rates *limiter.Rates, of *policyPart, shift int64) *limiter.Rates {
	if len(of.Rates) == 0 {
		return rates
	}
	if rates == nil {
		rates = limiter.NewRates()
	}
	addRates(rates, of.Rates, of.Candidates, shift)
	return rates
}

func addRates(to *limiter.Rates, decisions, candidates packed, shift int64) {
	decisions.addTo(shift, to.Allowed, to.Denied, to.ShadowDenied)
	candidates.addTo(shift, to.CandidateDenied, to.CandidateAllowed)
}

// setKeys sets the keys of the policy, and returns the largest error.
func setKeys(of *limiter.PolicyActivity, keys []keyPart, unlisted int64) (largest int64) {
	of.Unlisted = unlisted
	for _, k := range keys {
		of.Keys = append(of.Keys, limiter.DeniedKey{Key: k.listed(), Count: k.Count, Error: k.Error})
		largest = max(largest, k.Error)
	}
	return largest
}

// listed returns the key as in lists. The hash of a key of which only the beginning is kept is not
// known.
func (k *keyPart) listed() limiter.ListedKey {
	if len(k.Key) < k.Length {
		return limiter.ListedKey{Parts: []string{k.Key}, Cut: true}
	}
	return listedKey(store.Key(k.Key))
}
