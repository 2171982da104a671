// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// State sees and changes the state of single keys.
type State interface {
	Inspect(ctx context.Context, policy string, key []string, attributes plan.Attributes) (*limiter.KeyState, error)
	Reset(ctx context.Context, policy string, key []string) (bool, error)
	Block(ctx context.Context, policy string, key []string, length time.Duration) error
	Unblock(ctx context.Context, policy string, key []string) (bool, error)
}

// keyState is the state of a key as JSON.
type keyState struct {
	Policy      string       `json:"policy"`
	Override    string       `json:"override,omitempty"`
	Action      plan.Action  `json:"action,omitempty"`
	Blocked     bool         `json:"blocked"`
	BlockedBy   string       `json:"blockedBy,omitempty"`
	BlockLeftMs int64        `json:"blockLeftMs,omitempty"`
	Limits      []limitState `json:"limits"`
	Revision    int64        `json:"revision"`
}

// changed answers what changed something: whether there was anything to change.
type changed struct {
	Found bool `json:"found"`
}

// target is the key that a request is about.
type target struct {
	policy   string
	key      []string
	duration time.Duration // of a block
}

// inspect answers with the state of a key.
func (h *handler) inspect(w http.ResponseWriter, r *http.Request) {
	t, attributes, err := targetOfQuery(r)
	if err != nil {
		h.refuseState(w, r, err)
		return
	}
	if _, ok := h.allow(w, r, VerbInspect, t.policy); !ok {
		return
	}
	state, err := h.State.Inspect(r.Context(), t.policy, t.key, attributes)
	if err != nil {
		h.refuseState(w, r, err)
		return
	}
	out := keyState{
		Policy: state.Policy, Override: state.Override, Action: state.Action,
		Blocked: state.Blocked, BlockedBy: state.BlockedBy, BlockLeftMs: roundUp(state.BlockLeft, time.Millisecond),
		Limits: []limitState{}, Revision: state.Revision,
	}
	for i := range state.Limits {
		out.Limits = append(out.Limits, limitStateOf(&state.Limits[i]))
	}
	writeJSON(w, http.StatusOK, typeJSON, out)
}

func (h *handler) reset(w http.ResponseWriter, r *http.Request) {
	h.change(w, r, VerbReset, "Reset a key", func(ctx context.Context, t target) (bool, error) {
		return h.State.Reset(ctx, t.policy, t.key)
	})
}

func (h *handler) block(w http.ResponseWriter, r *http.Request) {
	h.change(w, r, VerbBlock, "Blocked a key", func(ctx context.Context, t target) (bool, error) {
		return true, h.State.Block(ctx, t.policy, t.key, t.duration)
	})
}

func (h *handler) unblock(w http.ResponseWriter, r *http.Request) {
	h.change(w, r, VerbUnblock, "Unblocked a key", func(ctx context.Context, t target) (bool, error) {
		return h.State.Unblock(ctx, t.policy, t.key)
	})
}

// change does something to the key that the body names, and leaves a line in the
// log that says who did.
func (h *handler) change(w http.ResponseWriter, r *http.Request, verb Verb, did string, do func(context.Context, target) (bool, error)) {
	x := takeExchange()
	defer x.release()
	if _, err := x.in.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		refuseBody(w, err)
		return
	}
	t, err := decodeTarget(x.in.Bytes(), verb == VerbBlock)
	if err != nil {
		h.refuseState(w, r, err)
		return
	}
	user, ok := h.allow(w, r, verb, t.policy)
	if !ok {
		return
	}
	found, err := do(r.Context(), t)
	if err != nil {
		h.refuseState(w, r, err)
		return
	}
	h.Logger.InfoContext(r.Context(), did, "policy", t.policy, "keyHash", hashOf(t.key), "user", user,
		"found", found, "duration", t.duration)
	writeJSON(w, http.StatusOK, typeJSON, changed{Found: found})
}

// hashOf tells keys apart in logs, which must not hold them.
func hashOf(key []string) string {
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func (h *handler) refuseState(w http.ResponseWriter, r *http.Request, err error) {
	invalid, isInvalid := errors.AsType[*limiter.FieldError](err)
	unknown, isUnknown := errors.AsType[*limiter.UnknownPolicyError](err)
	switch {
	case isInvalid:
		writeProblem(w, http.StatusBadRequest, invalidRequest(invalid))
	case isUnknown:
		writeProblem(w, http.StatusNotFound, problem{Code: codeUnknownPolicy, Field: "policy", Detail: unknown.Error()})
	case errors.Is(err, limiter.ErrNotReady):
		writeProblem(w, http.StatusServiceUnavailable, notReady())
	default: // Redis
		h.Logger.ErrorContext(r.Context(), "State was not reached", "error", err)
		writeProblem(w, http.StatusServiceUnavailable, problem{
			Code: codeUnavailable, Detail: "The state of keys cannot be reached at the moment.", RetryAfter: 1,
		})
	}
}

// targetOfQuery reads policy, key (once for each part) and, for overrides that
// select by them, remoteAddress and principal.
func targetOfQuery(r *http.Request) (t target, a plan.Attributes, err error) {
	for name, values := range r.URL.Query() {
		if name != "key" && len(values) > 1 {
			return t, a, &limiter.FieldError{Field: name, Problem: "is given twice"}
		}
		switch name {
		case "policy":
			t.policy = values[0]
		case "key":
			t.key = values
		case "remoteAddress":
			if a.RemoteAddress, err = netip.ParseAddr(values[0]); err != nil {
				return t, a, &limiter.FieldError{Field: name, Problem: "must be an IP address"}
			}
		case "principal":
			a.Principal = values[0]
		default:
			return t, a, &limiter.FieldError{Field: name, Problem: "is not a known parameter"}
		}
	}
	if problem := policyNameProblem(t.policy, nil); problem != "" {
		return t, a, &limiter.FieldError{Field: "policy", Problem: problem}
	}
	return t, a, nil
}

// decodeTarget reads {"policy","key"} and, for a block, "duration".
func decodeTarget(body []byte, block bool) (t target, err error) {
	if !utf8.Valid(body) {
		return t, invalid("must be UTF-8")
	}
	r := &reader{data: body}
	err = r.object(maxMembers, func(name []byte) (err error) {
		switch string(name) {
		case "policy":
			t.policy, err = r.text()
		case "key":
			t.key, err = r.key()
		case "duration":
			if !block {
				return unknown()
			}
			t.duration, err = r.duration()
		default:
			err = unknown()
		}
		return err
	})
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return t, err
	}
	if problem := policyNameProblem(t.policy, nil); problem != "" {
		return t, &limiter.FieldError{Field: "policy", Problem: problem}
	}
	return t, nil
}

func (r *reader) duration() (time.Duration, error) {
	text, err := r.text()
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, invalid("must be a duration such as 10m or 1h30m")
	}
	return d, nil
}
