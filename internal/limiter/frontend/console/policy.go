// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// policyPage is the data of the page of a policy.
type policyPage struct {
	Policy string
	// Loaded is true if a plan is in force. Facts describe it; nil unless the session MayInspect.
	Loaded bool
	Facts  *facts
	// Reason is why the policy is not ready. Known is false if no leader reports.
	Reason     string
	Known      bool
	Standalone bool

	activity
	// Targets has when a check last applied; of a policy that selects requests.
	Targets part[httptypes.TargetList]
	// MayInspect permits the form that opens a key, MayUnblock the button that lifts all blocks.
	MayInspect, MayUnblock bool
	// Notice reports a change.
	Notice string
}

// shownInPolicy is how many keys and blocks the page of a policy shows.
const shownInPolicy = 100

// policy serves the page of a policy.
func (c *Console) policy(v *visit) error { return c.showPolicy(v, v.r.URL.Query().Get("policy"), "") }

func (c *Console) showPolicy(v *visit, policy, notice string) error {
	namespace, name := plan.SplitID(policy)
	if namespace == "" || name == "" {
		return &problem{Status: http.StatusNotFound, Detail: "A policy is named by its Namespace and its name, as in shop/login."}
	}
	// The right comes first, so that the page of a policy of another Namespace reveals nothing.
	if _, err := c.authorizer.Authorize(v.ctx(), v.session.token, httpapi.VerbList, namespace, name); err != nil {
		return asProblem(err)
	}
	page := &policyPage{Policy: policy, Standalone: c.standalone, Notice: notice}
	page.MayInspect = c.may(v.ctx(), v.session, httpapi.VerbInspect, namespace, name) // as GET /v1/plan requires
	if err := c.loadPolicy(v, page); err != nil {
		return err
	}
	if !page.Loaded && page.Reason == "" {
		return &problem{Status: http.StatusNotFound, Detail: "No policy " + policy + " is in force."}
	}
	page.MayUnblock = c.may(v.ctx(), v.session, httpapi.VerbUnblock, namespace, name)
	return c.render(v, http.StatusOK, "policy", policy, page)
}

// loadPolicy loads the parts of the page.
func (c *Console) loadPolicy(v *visit, page *policyPage) error {
	var all httptypes.PolicyList
	if err := c.get(v.ctx(), v.session, "/v1/policies", nil, &all); err != nil {
		return err
	}
	page.Known = all.Unready != nil
	for _, u := range cmp.Or(all.Unready, &plan.Unready{}).Policies {
		if u.ID == page.Policy {
			page.Reason = u.Reason
		}
	}
	of := c.engine.Snapshot().Lookup(page.Policy)
	if of == nil {
		return nil
	}
	page.Loaded = true
	if page.MayInspect {
		page.Facts = factsOf(of, c.may(v.ctx(), v.session, httpapi.VerbReveal, of.Namespace, of.Name))
	}
	l, scope := c.newLoader(v), url.Values{"policy": {page.Policy}}
	page.load(l, scope, shownInPolicy)
	if len(of.Matches) > 0 && c.reportsTargets {
		fetch(l, &page.Targets, "/v1/targets", scope)
	}
	if err := l.finish(); err != nil {
		return err
	}
	page.show(shownInPolicy)
	return nil
}
