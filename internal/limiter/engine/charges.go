// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/weir-dev/weir/internal/limiter/store"

// addCharges sets what the check charges, and to which keys, from the policies that apply to it.
func (ev *evaluation) addCharges(matched []matchedPolicy) error {
	ev.addPolicies(matched)
	switch {
	case ev.reserve != nil:
		if err := ev.addHolds(ev.reserve); err != nil {
			return err
		}
	case ev.check.Hits != nil:
		if err := ev.addHits(); err != nil {
			return err
		}
	}
	ev.addTrials()
	ev.markOverQuota()
	return nil
}

// addPolicies sets the charged policies of the check, and its other outcomes.
func (ev *evaluation) addPolicies(matched []matchedPolicy) {
	if ev.check.Key != nil {
		ev.givenKey = store.EncodeKey(ev.check.Key...)
	}
	if len(ev.check.Policies) == 0 && !fit(matched) {
		ev.addInTurn(matched)
		return
	}
	for i := range matched {
		ev.addPolicy(&matched[i])
	}
}
