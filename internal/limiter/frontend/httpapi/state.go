// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// State reads and changes the state of single keys, and explains checks. The engine implements it.
type State interface {
	// FitKey returns the key of the requests that the parts mean under the policy: addresses are brought
	// to their network. It returns a *limiter.FieldError for a key that no request can have, unless that has
	// live state.
	FitKey(ctx context.Context, policy string, parts []string) ([]string, error)
	// FitSharedKey returns the key of requests that lack the empty parts, or all if parts is nil. It returns a
	// *limiter.FieldError if they share no budget.
	FitSharedKey(policy string, parts []string) ([]string, error)
	Inspect(ctx context.Context, policy string, key limiter.KeyName, attributes plan.Attributes) (*limiter.KeyState, error)
	Reset(ctx context.Context, policy string, key limiter.KeyName) (bool, error)
	Block(ctx context.Context, policy string, key limiter.KeyName, length time.Duration) error
	Unblock(ctx context.Context, policy string, key limiter.KeyName) (bool, error)
	// UnblockAll lifts all listed blocks of the policy and returns their number.
	UnblockAll(ctx context.Context, policy string) (int, error)
	// Explain returns how the check is decided as a peek. It returns the errors of Decide, and
	// limiter.ErrExplaining while it is busy.
	Explain(ctx context.Context, check *limiter.Check) (*limiter.Explanation, error)
	// KeyHash returns the hash that stands for the key in logs.
	KeyHash(key ...string) string
}

// HeaderClaimedUser is the name by which the caller of a state call wants to be logged. It is not
// verified. Only its first maxClaimedUser bytes are logged.
const (
	HeaderClaimedUser = "Weir-Claimed-User"
	maxClaimedUser    = 255
)

// inspect serves GET /v1/state.
func (h *Handler) inspect(w http.ResponseWriter, r *http.Request, token string) error {
	t, attributes, err := targetOfQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	caller, err := h.authorizeVerb(r.Context(), token, VerbInspect, t.policy)
	if err != nil {
		return err
	}
	fitted, err := h.fit(r.Context(), &t)
	var state *limiter.KeyState
	if err == nil {
		state, err = h.State.Inspect(r.Context(), t.policy, t.name(), attributes)
	}
	if err != nil {
		h.writeStateError(w, r, err, h.logAttrs(r, &t, caller)...)
		return nil
	}
	out := keyStateOf(state)
	out.Key = fitted
	if len(out.Reservations) > 0 && !h.mayEndReservations(r.Context(), token, t.policy) {
		for i := range out.Reservations {
			out.Reservations[i].ID = Mask(out.Reservations[i].ID)
		}
	}
	writeJSON(w, http.StatusOK, answer.TypeJSON, out)
	return nil
}

// mayEndReservations reports whether the bearer of the token may see the IDs of reservations, with which anyone can commit
// them: the right to reset a key can end its reservations anyway.
func (h *Handler) mayEndReservations(ctx context.Context, token, policy string) bool {
	_, err := h.authorizeVerb(ctx, token, VerbReset, policy)
	return err == nil
}

// fit replaces the parts of the key by the parts that requests have, and returns these if they
// differ.
func (h *Handler) fit(ctx context.Context, t *target) (fitted []string, err error) {
	if t.all || t.asGiven || t.keyHash != "" {
		return nil, nil
	}
	given := t.key
	if t.shared {
		t.key, err = h.State.FitSharedKey(t.policy, given)
	} else {
		t.key, err = h.State.FitKey(ctx, t.policy, given)
	}
	if err != nil || given == nil || slices.Equal(t.key, given) {
		return nil, err
	}
	return t.key, nil
}

func keyStateOf(state *limiter.KeyState) *httptypes.KeyState {
	out := &httptypes.KeyState{
		Policy: state.Policy, Override: state.Override, Group: state.Group, Action: state.Action,
		Exception: state.Exception,
		Blocked:   state.Blocked, BlockedBy: state.BlockedBy, BlockLeftMs: answer.RoundUp(state.BlockLeft, time.Millisecond),
		Limits: limitStates(state.Limits), OpenReservations: state.Open, Revision: state.Revision,
	}
	for _, hold := range state.Holds {
		out.Reservations = append(out.Reservations, httptypes.HeldUnits{
			ID: hold.ID, Units: hold.Units, EndsInMs: answer.RoundUp(hold.EndsIn, time.Millisecond),
		})
	}
	out.OpenSlices = state.OpenSlices
	for _, slice := range state.Slices {
		out.Slices = append(out.Slices, httptypes.SlicedUnits{Units: slice.Units, EndsInMs: answer.RoundUp(slice.EndsIn, time.Millisecond)})
	}
	return out
}

func (h *Handler) reset(ctx context.Context, t target) (httptypes.Changed, error) {
	found, err := h.State.Reset(ctx, t.policy, t.name())
	return httptypes.Changed{Found: found}, err
}

func (h *Handler) block(ctx context.Context, t target) (httptypes.Changed, error) {
	return httptypes.Changed{Found: true}, h.State.Block(ctx, t.policy, t.name(), t.duration)
}

func (h *Handler) unblock(ctx context.Context, t target) (httptypes.Changed, error) {
	if t.all {
		lifted, err := h.State.UnblockAll(ctx, t.policy)
		return httptypes.Changed{Found: lifted > 0, Lifted: &lifted}, err
	}
	found, err := h.State.Unblock(ctx, t.policy, t.name())
	return httptypes.Changed{Found: found}, err
}

// change returns the handler that changes the key that the body names and logs who did it.
func (h *Handler) change(verb Verb, did string, do func(context.Context, target) (httptypes.Changed, error)) http.HandlerFunc {
	return h.withToken(func(w http.ResponseWriter, r *http.Request, token string) error {
		var t target
		if err := decodeBody(w, r, func(body []byte) (err error) {
			t, err = decodeTarget(body, verb)
			return err
		}); err != nil {
			return err
		}
		caller, err := h.authorizeVerb(r.Context(), token, verb, t.policy)
		if err == nil && t.all {
			caller, err = h.authorizeVerb(r.Context(), token, VerbList, t.policy)
		}
		if err != nil {
			return err
		}
		// A caller that disconnects does not cancel the change, so that the log always records
		// whether it was made.
		ctx := context.WithoutCancel(r.Context())
		fitted, err := h.fit(ctx, &t)
		var result httptypes.Changed
		if err == nil {
			result, err = do(ctx, t)
		}
		if err != nil {
			h.writeStateError(w, r, err, h.logAttrs(r, &t, caller)...)
			return nil
		}
		result.Key = fitted
		h.Logger.InfoContext(r.Context(), did, append(h.logAttrs(r, &t, caller), "found", result.Found)...)
		writeJSON(w, http.StatusOK, answer.TypeJSON, result)
		return nil
	})
}

// logAttrs describes the target and the caller for the log. Keys may be secrets, so only the
// hash is logged, or "all".
func (h *Handler) logAttrs(r *http.Request, t *target, caller Caller) []any {
	hash := t.keyHash
	switch {
	case t.all:
		hash = "all"
	case hash == "":
		hash = h.State.KeyHash(t.key...)
	}
	attrs := append([]any{"policy", t.policy, "keyHash", hash}, callerAttrs(r, caller)...)
	if t.duration != 0 {
		attrs = append(attrs, "duration", t.duration.String())
	}
	return attrs
}

// callerAttrs describes the caller for the log.
func callerAttrs(r *http.Request, caller Caller) []any {
	attrs := []any{"user", caller.User}
	if caller.CredentialID != "" {
		attrs = append(attrs, "credentialID", caller.CredentialID)
	}
	if claimed := claimedUser(r); claimed != "" {
		attrs = append(attrs, "claimedUser", claimed)
	}
	return attrs
}

// writeStateError answers a state call that failed. context is added to the log line of a
// server error.
func (h *Handler) writeStateError(w http.ResponseWriter, r *http.Request, err error, context ...any) {
	invalid, isInvalid := errors.AsType[*limiter.FieldError](err)
	unknown, isUnknown := errors.AsType[*limiter.UnknownPolicyError](err)
	unlisted, isUnlisted := errors.AsType[*limiter.UnknownKeyError](err)
	failed, isAnswered := errors.AsType[*failure](err)
	authorization, isAuthorization := errors.AsType[*tokenError](err)
	switch {
	case isAnswered:
		writeProblem(w, failed.status, failed.problem)
	case isAuthorization:
		h.writeTokenError(w, r, authorization.cause)
	case isInvalid:
		writeProblem(w, http.StatusBadRequest, answer.InvalidRequest(invalid))
	case isUnknown:
		writeProblem(w, http.StatusNotFound, answer.Problem{Code: codeUnknownPolicy, Field: "policy", Detail: unknown.Error()})
	case isUnlisted:
		writeProblem(w, http.StatusNotFound, answer.Problem{Code: codeUnknownKey, Field: "keyHash", Detail: unlisted.Error()})
	case errors.Is(err, limiter.ErrNotReady):
		writeProblem(w, http.StatusServiceUnavailable, notReady())
	case errors.Is(err, r.Context().Err()): // inspect only: change ignores cancellation
		writeClientClosed(w)
	default: // an error of Redis; a change may have been made all the same
		h.Logger.ErrorContext(r.Context(), "Failed to read or change the state of a key", append(context, "path", r.URL.Path, "error", err)...)
		writeProblem(w, http.StatusServiceUnavailable, answer.Problem{
			Code: codeUnavailable, Detail: detailUnavailable, RetryAfter: 1,
		})
	}
}
