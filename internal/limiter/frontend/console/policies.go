// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// pageSize is the number of policies on one page.
const pageSize = 100

// policiesPage is the data of the list of policies.
type policiesPage struct {
	Policies []policyRow
	// Found is the number of policies that the session may list and whose name contains Search.
	Found  int
	Search string
	Hidden int
	// Leader is false if no leader reports which policies are ready.
	Leader     bool
	Standalone bool
	Activity   string // why there are no rates
	// Previous and Next are the other pages; empty without one.
	Previous, Next link
}

type policyRow struct {
	Name, Mode string
	Limits     []httptypes.LimitSummary
	// Reason is why it is not ready; empty if it is.
	Reason string
	// Loaded is false if the policy has no plan.
	Loaded    bool
	Sparkline *plot // nil without decisions
	Sums      *httptypes.DecisionSums
}

// shownLimits is how many limits of a policy the list shows.
const shownLimits = 3

// FirstLimits are the limits that the list shows.
func (r *policyRow) FirstLimits() []httptypes.LimitSummary {
	return r.Limits[:min(len(r.Limits), shownLimits)]
}

// MoreLimits is the number of others.
func (r *policyRow) MoreLimits() int { return len(r.Limits) - len(r.FirstLimits()) }

// listRights returns the policies that the session may list.
func (c *Console) listRights(v *visit) (*httpapi.ReadRights, error) {
	rights, err := httpapi.NewReadRights(v.ctx(), c.authorizer, v.session.token, httpapi.VerbList)
	if err != nil {
		return nil, asProblem(err)
	}
	return rights, nil
}

// policies serves the list of policies.
func (c *Console) policies(v *visit) error {
	var all part[httptypes.PolicyList]
	var rates part[httptypes.RateList]
	var top part[httptypes.TopList]
	l := c.newLoader(v)
	fetch(l, &all, "/v1/policies", nil)
	fetch(l, &rates, "/v1/rates", nil)
	fetch(l, &top, "/v1/top", nil)
	if err := l.finish(); err != nil {
		return err
	}
	if all.Problem != "" {
		return &problem{Status: http.StatusServiceUnavailable, Detail: all.Problem}
	}
	rights, err := c.listRights(v)
	if err != nil {
		return err
	}
	query := v.r.URL.Query()
	page := &policiesPage{
		Search: strings.TrimSpace(query.Get("search")), Leader: all.Data.Unready != nil, Standalone: c.standalone, Activity: rates.Problem,
	}
	rows, err := page.rows(v, rights, &all.Data)
	if err != nil {
		return asProblem(err)
	}
	page.cut(rows, query)
	page.addActivity(&rates.Data, &top.Data)
	return c.render(v, http.StatusOK, "policies", "Policies", page)
}

// rows returns the policies that the session may list and that the search finds.
func (p *policiesPage) rows(v *visit, rights *httpapi.ReadRights, all *httptypes.PolicyList) (rows []policyRow, err error) {
	var found []policyRow
	at := map[string]int{}
	for i, policy := range all.Policies {
		at[policy.Name] = i
		found = append(found, policyRow{Name: policy.Name, Mode: string(policy.Mode), Limits: policy.Limits, Loaded: true})
	}
	for _, u := range cmp.Or(all.Unready, &plan.Unready{}).Policies {
		if i, loaded := at[u.ID]; loaded {
			found[i].Reason = u.Reason
		} else {
			found = append(found, policyRow{Name: u.ID, Reason: u.Reason})
		}
	}
	for _, row := range found {
		allowed, err := rights.ToPolicy(v.ctx(), row.Name)
		switch {
		case err != nil:
			return nil, err
		case !allowed:
			p.Hidden++
		case strings.Contains(row.Name, p.Search):
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// cut keeps the rows of the page that the query selects.
func (p *policiesPage) cut(rows []policyRow, query url.Values) {
	p.Found = len(rows)
	from, _ := strconv.Atoi(query.Get("from")) // 0 if it is not a number
	from = min(max(from, 0), max(len(rows)-1, 0)) / pageSize * pageSize
	pageFrom := func(from int) link {
		query.Set("from", strconv.Itoa(from))
		return linkTo(pathPolicies, query)
	}
	if from > 0 {
		p.Previous = pageFrom(from - pageSize)
	}
	if from+pageSize < len(rows) {
		p.Next = pageFrom(from + pageSize)
	}
	p.Policies = rows[from:min(from+pageSize, len(rows))]
}

func (p *policiesPage) addActivity(rates *httptypes.RateList, top *httptypes.TopList) {
	lines, decided := map[string]*plot{}, map[string]*httptypes.DecisionSums{}
	for i := range rates.Policies {
		lines[rates.Policies[i].Policy] = sparkline(&rates.Policies[i].RateSamples)
	}
	for i := range top.Policies {
		decided[top.Policies[i].Policy] = top.Policies[i].Decisions
	}
	for i := range p.Policies {
		row := &p.Policies[i]
		row.Sparkline, row.Sums = lines[row.Name], decided[row.Name]
	}
}
