// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// target names one key, or all keys of a policy.
type target struct {
	httptypes.Target
	// RemoteAddress and Principal select an override; empty if unknown.
	RemoteAddress, Principal string
}

// targetOf reads the target from the fields of a form or a query.
func targetOf(values url.Values) *target {
	return &target{
		Target: httptypes.Target{
			Policy: values.Get("policy"), Key: values["key"], KeyHash: values.Get("keyHash"), AsGiven: values.Get("asGiven") == "true",
		},
		RemoteAddress: values.Get("remoteAddress"), Principal: values.Get("principal"),
	}
}

// keyPage is the data of the page of a key.
type keyPage struct {
	Target *target
	// Listed is the key as lists show it; nil if it is in none, or named by its parts.
	Listed *httptypes.ListedKey
	Mode   string
	State  httptypes.KeyState
	Limits []keyLimit

	MayBlock, MayUnblock, MayReset bool
	// Notice reports a change, Problem a change that failed.
	Notice, Problem string
}

// keyLimit is a limit with its drawing.
type keyLimit struct {
	answer.LimitState

	Algorithm plan.Algorithm
	Window    *window
}

// key serves the page of a key. A form that names a key by its parts uses POST, since the parts may be
// secrets, which do not belong into the history of a browser.
func (c *Console) key(v *visit) error {
	values := v.r.URL.Query()
	if v.r.Method == http.MethodPost {
		values = v.r.PostForm
	}
	return c.showKey(v, targetOf(values), "", "")
}

func (c *Console) showKey(v *visit, t *target, notice, problem string) error {
	page := &keyPage{Target: t, Notice: notice, Problem: problem}
	if err := c.get(v.ctx(), v.session, "/v1/state", t.Query(t.RemoteAddress, t.Principal), &page.State); err != nil {
		return err
	}
	if page.State.Key != nil { // also for what the page changes
		t.Key = page.State.Key
	}
	snapshot := c.engine.Snapshot()
	if of := snapshot.Lookup(t.Policy); of != nil {
		page.Mode = string(of.Mode)
		page.addLimits(of, snapshot.Exceptions())
	}
	if err := c.findListed(v, page); err != nil {
		return err
	}
	namespace, name := plan.SplitID(t.Policy)
	page.MayBlock = c.may(v.ctx(), v.session, httpapi.VerbBlock, namespace, name)
	page.MayUnblock = c.may(v.ctx(), v.session, httpapi.VerbUnblock, namespace, name)
	page.MayReset = c.may(v.ctx(), v.session, httpapi.VerbReset, namespace, name)
	return c.render(v, http.StatusOK, "key", "Key under "+t.Policy, page)
}

// addLimits adds the limits with their drawings, under the exception in force. An edit of the policy since the call can
// remove a limit from the plan.
func (p *keyPage) addLimits(of *plan.Plan, exceptions []*plan.Exception) {
	limits := of.Limits
	for i := range of.Overrides {
		if o := &of.Overrides[i]; o.Name == p.State.Override && o.Action == plan.ActionLimit {
			limits = of.LimitsOf(o)
		}
	}
	for _, e := range exceptions {
		if in := p.State.Exception; in != nil && e.Name == in.Name && e.PolicyID() == p.State.Policy {
			limits = e.Apply(limits)
		}
	}
	for i := range p.State.Limits {
		state := &p.State.Limits[i]
		for j := range limits {
			if limits[j].Name == state.Limit {
				p.Limits = append(p.Limits, keyLimit{
					LimitState: *state, Algorithm: limits[j].Algorithm, Window: newWindow(state, &limits[j], of.Quota(limits[j])),
				})
			}
		}
	}
}

// findListed finds the key of the hash in the lists that the session may read.
func (c *Console) findListed(v *visit, page *keyPage) error {
	if page.Target.KeyHash == "" {
		return nil
	}
	var seen activity
	l := c.newLoader(v)
	seen.load(l, url.Values{"policy": {page.Target.Policy}}, shownInPolicy)
	if err := l.finish(); err != nil {
		return err
	}
	found := func(k *httptypes.ListedKey) {
		if k.KeyHash == page.Target.KeyHash {
			page.Listed = k
		}
	}
	for i := range seen.Blocks.Data.Blocks {
		found(&seen.Blocks.Data.Blocks[i].ListedKey)
	}
	for i := range seen.Top.Data.Policies {
		for j := range seen.Top.Data.Policies[i].Keys {
			found(&seen.Top.Data.Policies[i].Keys[j].ListedKey)
		}
	}
	return nil
}

// problemOf returns the problem of an error, if the error is one of the request and not of the session.
func problemOf(err error) (*problem, bool) {
	p, ok := errors.AsType[*problem](err)
	return p, ok && p.Status == http.StatusBadRequest
}
