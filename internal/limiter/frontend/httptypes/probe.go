// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httptypes

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// ProbeRequest is the body of POST /v1/probes.
type ProbeRequest struct {
	// Namespace is the one whose policies the answer names; empty is all.
	Namespace string `json:"namespace,omitempty"`
	// Method is the method by which policies are matched; empty is the method of the request with the code.
	Method string `json:"method,omitempty"`
}

// ProbeCode is the answer of POST /v1/probes.
type ProbeCode struct {
	// Header is the name of the request header for Code.
	Header string `json:"header"`
	Code   string `json:"code"`
	// AnswerHeader is the name of the response header with the ProbeReport.
	AnswerHeader     string `json:"answerHeader"`
	ExpiresInSeconds int    `json:"expiresInSeconds"`
}

// ProbeReport is what Weir saw of a request with a code. Long texts are cut.
type ProbeReport struct {
	Frontend string `json:"door"`
	Replica  string `json:"replica,omitempty"`
	// Targets are the Gateway and the route that the request came through. OtherTargets and OtherPolicies count those that have
	// no room.
	Targets       []string `json:"targets"`
	OtherTargets  int      `json:"otherTargets,omitempty"`
	Method        string   `json:"method"`
	Host          string   `json:"host"`
	Path          string   `json:"path"`
	Domain        string   `json:"domain,omitempty"`
	RemoteAddress string   `json:"remoteAddress,omitempty"`
	Principal     string   `json:"principal,omitempty"`
	// Policies are those that apply, in the Namespace that the code is for. OtherPolicies also counts policies of other Namespaces.
	Policies      []string `json:"policies"`
	OtherPolicies int      `json:"otherPolicies,omitempty"`
	// Problem is why Weir would not decide the request.
	Problem string `json:"problem,omitempty"`
}

// HasTarget reports whether the target, or a section of it, is among the targets.
func (r *ProbeReport) HasTarget(target string) bool {
	return slices.ContainsFunc(r.Targets, func(seen string) bool {
		return seen == target || string(plan.Target(seen).Whole()) == target
	})
}
