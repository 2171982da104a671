// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// maxNamespaces bounds the Namespaces for which one explanation asks whether the caller may read
// them. Policies of further ones are hidden.
const maxNamespaces = 20

// explain serves POST /v1/explain. Its body is the body of a check.
func (h *Handler) explain(w http.ResponseWriter, r *http.Request, token string) error {
	q := newRequest()
	if !h.readRequest(w, r, q, (*request).decode) {
		return nil
	}
	rights, err := NewReadRights(r.Context(), h.Authorizer, token, VerbInspect)
	if err == nil {
		err = rights.requireNamed(r.Context(), q.check.Policies)
	}
	if err != nil {
		return &tokenError{err}
	}
	return h.writeExplanation(w, r, q, rights)
}

// writeExplanation answers with the explanation of the check.
func (h *Handler) writeExplanation(w http.ResponseWriter, r *http.Request, q *request, rights *ReadRights) error {
	x, err := h.State.Explain(r.Context(), &q.check)
	if errors.Is(err, limiter.ErrExplaining) {
		return busy("Another request is being explained.")
	}
	if err != nil {
		h.writeCheckError(w, r, q, h.answerOptions(), err)
		return nil
	}
	if len(q.check.Policies) == 0 {
		x.NearMisses = h.addUnpublished(x.NearMisses)
	}
	out, err := explanationOf(r.Context(), x, rights)
	if err != nil {
		return &tokenError{err}
	}
	writeJSON(w, http.StatusOK, answer.TypeJSON, out)
	if x.Decision.Degraded == "" {
		q.release()
	}
	return nil
}

// addUnpublished adds the policies that the leader reports as not Ready and that have no plan.
func (h *Handler) addUnpublished(misses []limiter.NearMiss) []limiter.NearMiss {
	snapshot := h.Engine.Snapshot()
	if h.Unready == nil || snapshot == nil {
		return misses
	}
	for _, p := range cmp.Or(h.Unready(), &plan.Unready{}).Policies {
		isSkipped := func(s index.Skipped) bool { return s.ID == p.ID }
		if snapshot.Lookup(p.ID) == nil && !slices.ContainsFunc(snapshot.Skipped(), isSkipped) {
			misses = append(misses, limiter.NearMiss{
				Policy: p.ID, Reason: limiter.NearNotLoaded, Detail: "the policy is not Ready: " + p.Reason,
			})
		}
	}
	slices.SortStableFunc(misses, func(a, b limiter.NearMiss) int { return cmp.Compare(a.Rank(), b.Rank()) })
	return misses
}

// ReadRights finds out in which Namespaces a caller has a verb that reads the state of keys.
type ReadRights struct {
	authorizer Authorizer
	token      string
	verb       Verb
	everywhere bool
	namespaces map[string]bool
}

// NewReadRights returns the rights of the bearer of the token, or the error of the Authorizer.
func NewReadRights(ctx context.Context, authorizer Authorizer, token string, verb Verb) (*ReadRights, error) {
	r := &ReadRights{authorizer: authorizer, token: token, verb: verb, namespaces: map[string]bool{}}
	var err error
	r.everywhere, err = r.ask(ctx, "")
	return r, err
}

// ask reports whether the caller may read the Namespace; an empty one stands for all.
func (r *ReadRights) ask(ctx context.Context, namespace string) (bool, error) {
	_, err := r.authorizer.Authorize(ctx, r.token, r.verb, namespace, "")
	if errors.Is(err, ErrForbidden) {
		return false, nil
	}
	return err == nil, err
}

// ToPolicy reports whether the caller may read the policy. It asks for at most maxNamespaces.
func (r *ReadRights) ToPolicy(ctx context.Context, policy string) (bool, error) {
	if r.everywhere {
		return true, nil
	}
	namespace, _ := plan.SplitID(policy)
	allowed, known := r.namespaces[namespace]
	if known || len(r.namespaces) >= maxNamespaces {
		return allowed, nil
	}
	allowed, err := r.ask(ctx, namespace)
	if err == nil {
		r.namespaces[namespace] = allowed
	}
	return allowed, err
}

// requireNamed returns ErrForbidden if the caller may not read one of the policies. It runs before
// they are looked up, so that unauthorized callers cannot find out which policies exist.
func (r *ReadRights) requireNamed(ctx context.Context, policies []string) error {
	for _, policy := range policies {
		allowed, err := r.ToPolicy(ctx, policy)
		if err != nil {
			return err
		}
		if !allowed {
			return ErrForbidden
		}
	}
	return nil
}
