// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// How many keys, blocks and policies that are not ready the overview shows.
const (
	shownKeys     = 10
	shownBlocks   = 10
	shownUnready  = 20
	shownReplicas = 50
)

// overviewPage is the data of the overview.
type overviewPage struct {
	activity

	Process  part[*httptypes.Process]
	Policies part[httptypes.PolicyList]
	// Unready are the unready policies that the session may list, HiddenUnready is the number of others.
	Unready       []plan.UnreadyPolicy
	HiddenUnready int
	// Leader is false if no leader reports.
	Leader     bool
	Standalone bool
	// CheckURL is the base URL of the HTTP API, "" if unknown.
	CheckURL string
}

// Example is the policy for the example of a check, "" without policies in force.
func (p *overviewPage) Example() string {
	example := ""
	for i := range p.Policies.Data.Policies {
		if of := &p.Policies.Data.Policies[i]; of.Mode != plan.ModeDisabled && (example == "" || of.Name == "shop/burst") {
			example = of.Name
		}
	}
	return example
}

// Loaded is the number of policies in force.
func (p *overviewPage) Loaded() int { return len(p.Policies.Data.Policies) }

// Replicas are the live replicas, as many as the page shows.
func (p *overviewPage) Replicas() []httptypes.Replica {
	all := p.Policies.Data.Replicas
	return all[:min(len(all), shownReplicas)]
}

// overview serves the first page.
func (c *Console) overview(v *visit) error {
	page := &overviewPage{Standalone: c.standalone}
	if c.checkURL != nil {
		page.CheckURL = c.checkURL()
	}
	l := c.newLoader(v)
	page.load(l, url.Values{}, shownBlocks)
	load(l, &page.Process, func(into **httptypes.Process) (err error) {
		*into, err = c.describe(v.ctx(), v.session)
		return err
	})
	fetch(l, &page.Policies, "/v1/policies", nil)
	if err := l.finish(); err != nil {
		return err
	}
	page.show(shownKeys)
	if err := c.addUnready(v, page); err != nil {
		return err
	}
	return c.render(v, http.StatusOK, "overview", "Overview", page)
}

// activity is what is observed in a scope.
type activity struct {
	Rates  part[httptypes.RateList]
	Top    part[httptypes.TopList]
	Blocks part[httptypes.BlockList]
	// Plot and Keys show the rates and the most denied keys.
	Plot *plot
	Keys []deniedKey
}

// load loads the lists in the scope of the query, with as many blocks.
func (a *activity) load(l *loader, scope url.Values, most int) {
	fetch(l, &a.Rates, "/v1/rates", scope)
	fetch(l, &a.Top, "/v1/top", scope)
	limited := maps.Clone(scope)
	limited.Set("limit", strconv.Itoa(most))
	fetch(l, &a.Blocks, "/v1/blocks", limited)
}

// show sets Plot and Keys.
func (a *activity) show(most int) {
	if a.Rates.Problem == "" {
		a.Plot = newPlot(&a.Rates.Data.Total, a.Rates.Data.EndTime, a.Rates.Data.PeriodSeconds)
	}
	a.Keys = topKeys(&a.Top.Data, most)
}

// deniedKey is a key of a policy.
type deniedKey struct {
	httptypes.TopKey

	Policy string
}

// topKeys returns the keys that are denied most often, of all policies.
func topKeys(top *httptypes.TopList, most int) []deniedKey {
	var keys []deniedKey
	for i := range top.Policies {
		p := &top.Policies[i]
		for _, k := range p.Keys {
			keys = append(keys, deniedKey{TopKey: k, Policy: p.Policy})
		}
	}
	slices.SortStableFunc(keys, func(a, b deniedKey) int { return cmp.Compare(b.Count, a.Count) })
	return keys[:min(len(keys), most)]
}

// addUnready adds the policies that are not ready and that the session may list.
func (c *Console) addUnready(v *visit, page *overviewPage) error {
	notReady := page.Policies.Data.Unready
	page.Leader = notReady != nil
	if notReady == nil {
		return nil
	}
	rights, err := c.listRights(v)
	if err != nil {
		return err
	}
	for _, p := range notReady.Policies {
		allowed, err := rights.ToPolicy(v.ctx(), p.ID)
		if err != nil {
			return asProblem(err)
		}
		if allowed && len(page.Unready) < shownUnready {
			page.Unready = append(page.Unready, p)
		}
	}
	page.HiddenUnready = notReady.Count - len(page.Unready)
	return nil
}
