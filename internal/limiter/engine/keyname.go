// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// asGivenHint ends the error about a key that no request can have.
const asGivenHint = "; asGiven accepts a key of another form, which callers gave with their checks"

// FitKey returns the key that the policy derives from requests with these parts: it replaces an address by
// the network that the policy counts as one client. Checks can also be given keys of another form, so it
// returns the parts as they are if
//
//   - they have live state, and no request can have such a key, or
//   - they have live state, and the derived key has none.
//
// It returns the errors of Inspect, and a *limiter.FieldError for any other key that no request can have.
func (e *Engine) FitKey(ctx context.Context, id string, parts []string) ([]string, error) {
	if err := limiter.ValidateKey(parts); err != nil {
		return nil, err
	}
	_, p, err := e.policyOf(id)
	if err != nil {
		return nil, err
	}
	fitted, err := p.plan.FitKey(parts)
	if err == nil && slices.Equal(fitted, parts) {
		return parts, nil
	}
	if isMeant, liveErr := e.isMeantAsGiven(ctx, id, parts, fitted); isMeant || liveErr != nil {
		return parts, liveErr
	}
	return fitted, misfitError(err)
}

// FitSharedKey returns the key of requests that lack a part of the policy's key: its empty parts, or all parts if parts is nil. It
// replaces an address as FitKey does. It returns a *limiter.FieldError if such requests share no budget, or if the parts do not fit.
func (e *Engine) FitSharedKey(id string, parts []string) ([]string, error) {
	_, p, err := e.policyOf(id)
	if err != nil {
		return nil, err
	}
	if parts == nil {
		parts = make([]string, len(p.plan.Key))
	}
	if len(p.plan.Key) > 0 && p.plan.OnMissingKey != plan.MissingKeyShare {
		return nil, &limiter.FieldError{Field: "shared", Problem: "requests without the key share no budget: onMissingKey of " + id + " is " + string(p.plan.OnMissingKey)}
	}
	name := limiter.KeyName{Parts: parts, Shared: true}
	if err := name.Validate(); err != nil {
		return nil, err
	}
	fitted, err := p.plan.FitKey(parts)
	return fitted, misfitError(err)
}

// isMeantAsGiven reports whether the given key has live state and the fitted key has none. fitted is nil
// if no request can have the key.
func (e *Engine) isMeantAsGiven(ctx context.Context, id string, given, fitted []string) (bool, error) {
	if given == nil { // the shared budget, which asGiven does not reach either
		return false, nil
	}
	isLive, err := e.isLive(ctx, id, given)
	if err != nil || !isLive || fitted == nil {
		return isLive, err
	}
	isLive, err = e.isLive(ctx, id, fitted)
	return !isLive, err
}

// isLive reports whether the key has units, a block or an open reservation.
func (e *Engine) isLive(ctx context.Context, id string, parts []string) (bool, error) {
	state, err := e.Inspect(ctx, id, limiter.KeyName{Parts: parts}, plan.Attributes{})
	if err != nil {
		return false, err
	}
	isUsed := func(l limiter.LimitState) bool { return l.Used > 0 }
	return state.Blocked || state.Open > 0 || slices.ContainsFunc(state.Limits, isUsed), nil
}

// misfitError returns the error of FitKey for a *plan.KeyError.
func misfitError(err error) error {
	misfit, ok := errors.AsType[*plan.KeyError](err)
	if !ok {
		return err
	}
	field := "key"
	if misfit.Part >= 0 {
		field = fmt.Sprintf("key[%d]", misfit.Part)
	}
	return &limiter.FieldError{Field: field, Problem: misfit.Problem + asGivenHint}
}
