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

// FitKey returns the key of the requests that the parts mean under the policy: it brings addresses to
// the network that the policy counts as one client. Callers may give checks keys of another form, so a
// key with live state that no request can have is returned as it is, and one that can, if the key of
// the requests has no live state. It returns the errors of Inspect, and a *limiter.FieldError for
// any other key that no request can have.
func (e *Engine) FitKey(ctx context.Context, id string, parts []string) ([]string, error) {
	v := e.active.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	if err := limiter.ValidateKey(parts); err != nil {
		return nil, err
	}
	p, err := v.policyOf(id)
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

// isMeantAsGiven reports whether the given key has live state, and the fitted one, if there is one, has
// none.
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
