// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// defaultBlocks is how many blocks are listed without the parameter limit, maxBlocks the most.
	defaultBlocks = 100
	maxBlocks     = 1000
)

// listQuery is what a list is about.
type listQuery struct {
	limiter.Scope

	limit int
	// value is what a part of the key must have, and part the name of that part; empty for any part.
	value, part string
}

// listQueryOf reads policy or namespace, or neither for all policies, and the further parameters that
// are known. Errors are *limiter.FieldError.
func listQueryOf(text string, known ...string) (q listQuery, err error) {
	q.limit = defaultBlocks
	err = readQuery(text, func(name string, values []string) error {
		if len(values) > 1 {
			return invalid("occurs twice")
		}
		return q.read(name, values[0], known)
	})
	if err == nil && q.Policy != "" && q.Namespace != "" {
		err = inField("namespace", invalid("cannot be combined with policy"))
	}
	return q, err
}

// readQuery calls read for each parameter of the query, in the order of their names. Errors are *limiter.FieldError.
func readQuery(text string, read func(name string, values []string) error) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return inField("query", invalid("must be pairs of names and values"))
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if err := read(name, query[name]); err != nil {
			return inField(label([]byte(name)), err)
		}
	}
	return nil
}

func (q *listQuery) read(name, value string, known []string) (err error) {
	problem := ""
	switch {
	case name == "policy":
		q.Policy, problem = value, policyNameProblem(value, nil)
	case name == "namespace":
		q.Namespace, problem = value, policyNameProblem(value+"/x", nil)
		if problem != "" {
			problem = "must be the name of a Namespace"
		}
	case !slices.Contains(known, name):
		problem = "is not a known parameter"
	case name == "value":
		q.value, problem = value, limiter.KeyProblem(value)
	case name == "part":
		q.part, problem = value, limiter.KeyProblem(value)
	default:
		q.limit, err = strconv.Atoi(value)
		if err != nil || q.limit < 1 || q.limit > maxBlocks {
			problem = "must be 1.." + strconv.Itoa(maxBlocks)
		}
	}
	if problem != "" {
		return invalid(problem)
	}
	return nil
}

// listRights are what the bearer of a token may see in lists.
type listRights struct{ list, reveal *ReadRights }

// listRights returns the rights of the bearer, or ErrForbidden if the policy or the Namespace in the
// scope may not be listed. It runs before policies are looked up.
func (h *Handler) listRights(ctx context.Context, token string, s limiter.Scope) (*listRights, error) {
	list, err := h.rightsIn(ctx, token, VerbList, s)
	if err != nil {
		return nil, err
	}
	for _, allowed := range list.namespaces { // none without a scope
		if !allowed {
			return nil, ErrForbidden
		}
	}
	reveal, err := h.rightsIn(ctx, token, VerbReveal, s)
	return &listRights{list: list, reveal: reveal}, err
}

// rightsIn returns the rights of the bearer in the scope.
func (h *Handler) rightsIn(ctx context.Context, token string, verb Verb, s limiter.Scope) (*ReadRights, error) {
	namespace, name := s.Namespace, ""
	if s.Policy != "" {
		namespace, name = plan.SplitID(s.Policy)
	}
	if namespace == "" {
		return NewReadRights(ctx, h.Authorizer, token, verb)
	}
	_, err := h.Authorizer.Authorize(ctx, token, verb, namespace, name)
	if err != nil && !errors.Is(err, ErrForbidden) {
		return nil, err
	}
	return &ReadRights{namespaces: map[string]bool{namespace: err == nil}}, nil
}

// errNotObserved means that the process collects nothing.
var errNotObserved = &failure{http.StatusNotFound, answer.Problem{
	Code: codeNotObserved, Detail: "this Weir runs with --observe=false and collects no denied and blocked keys.",
}}

// list returns the handler of a list: it authorizes the caller, then answers with what get returns. The query may
// have the known parameters beside the scope. The list is unavailable if there is an error for it.
func (h *Handler) list(
	unavailable *failure, get func(ctx context.Context, q listQuery, rights *listRights) (any, error), known ...string,
) http.HandlerFunc {
	return h.withToken(func(w http.ResponseWriter, r *http.Request, token string) error {
		q, err := listQueryOf(r.URL.RawQuery, known...)
		if err != nil {
			return err
		}
		rights, err := h.listRights(r.Context(), token, q.Scope)
		switch {
		case err != nil:
			return &tokenError{err}
		case unavailable != nil:
			return unavailable
		}
		if _, err := h.planOf(q.Policy); err != nil && (q.Policy != "" || errors.Is(err, limiter.ErrNotReady)) {
			return err
		}
		out, err := get(r.Context(), q, rights)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, answer.TypeJSON, out)
		return nil
	})
}

// toPolicy reports whether the policy may be listed, and whether its keys are revealed. Its errors are tokenErrors.
func (l *listRights) toPolicy(ctx context.Context, policy string) (list, reveal bool, err error) {
	if list, err = l.list.ToPolicy(ctx, policy); err == nil && list {
		reveal, err = l.reveal.ToPolicy(ctx, policy)
	}
	if err != nil {
		err = &tokenError{err}
	}
	return list, reveal, err
}

// blocks returns the live blocks that the caller may list, for GET /v1/blocks.
func (h *Handler) blocks(ctx context.Context, q listQuery, rights *listRights) (any, error) {
	found, reveals, hidden, err := h.visibleBlocks(ctx, q.Scope, rights, q.limit)
	if err != nil {
		return nil, err
	}
	out := &httptypes.BlockList{Blocks: []httptypes.ListedBlock{}, Truncated: found.Truncated, HiddenPolicies: hidden}
	snapshot := h.Engine.Snapshot()
	for i := range found.Blocks {
		b := &found.Blocks[i]
		out.Blocks = append(out.Blocks, httptypes.ListedBlock{
			Policy: b.Policy, Limit: b.By, LeftMs: answer.RoundUp(b.Left, time.Millisecond),
			ListedKey: listedKeyOf(snapshot.Lookup(b.Policy), &b.Key, reveals[b.Policy]),
		})
	}
	return out, nil
}

// visibleBlocks returns up to most live blocks that the caller may list, the policies whose keys are
// revealed, and the number of policies with blocks that the caller may not list.
func (h *Handler) visibleBlocks(
	ctx context.Context, s limiter.Scope, rights *listRights, most int,
) (found *limiter.BlockList, reveals map[string]bool, hidden int, err error) {
	blocked, err := h.Blocks.HaveBlocks(ctx, h.policiesIn(s))
	if err != nil {
		return nil, nil, 0, err
	}
	reveals = map[string]bool{}
	var visible []string
	for _, policy := range blocked {
		list, reveal, err := rights.toPolicy(ctx, policy)
		if err != nil {
			return nil, nil, 0, err
		}
		if !list {
			hidden++
			continue
		}
		visible, reveals[policy] = append(visible, policy), reveal
	}
	found, err = h.Blocks.Blocks(ctx, visible, most)
	return found, reveals, hidden, err
}

// policiesIn returns the policies with a plan in the scope.
func (h *Handler) policiesIn(s limiter.Scope) []string {
	if s.Policy != "" {
		return []string{s.Policy}
	}
	var policies []string
	for _, p := range h.Engine.Snapshot().Plans() {
		if s.Namespace == "" || s.Namespace == p.Namespace {
			policies = append(policies, p.ID())
		}
	}
	return policies
}
