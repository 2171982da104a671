// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Reserve asks Weir to decide a request whose cost is known only when it ends, and to hold units until
// then.
type Reserve struct {
	// Check has the estimate as its Cost, which the policies that take reservations hold. All
	// others spend 1. Peek must not be set.
	Check
	// Costs are the estimates by policy, "namespace/name", in place of Cost. Policies that it does
	// not name spend 1.
	Costs map[string]int64
	// TTL is how long the reservation stays open; 0 is the longest that its policies allow. A
	// reservation that is neither committed nor renewed in time is spent at its estimate.
	TTL time.Duration
	// ID makes the call safe to repeat while the reservation is open: 1 to 64 printable ASCII
	// characters without spaces. Empty is a random one.
	ID string
}

// MarshalJSON returns the body of POST /v1/reserve.
func (r Reserve) MarshalJSON() ([]byte, error) {
	body := struct {
		Check
		Costs map[string]int64 `json:"costs,omitempty"`
		TTL   string           `json:"ttl,omitempty"`
		ID    string           `json:"id,omitempty"`
	}{Check: r.Check, Costs: r.Costs, ID: r.ID}
	if r.TTL != 0 {
		body.TTL = r.TTL.String()
	}
	return json.Marshal(body)
}

// Reservation holds units for a request. It is safe for concurrent use.
type Reservation struct {
	// Decision is whether the request may pass. A denied one holds nothing.
	Decision Decision

	client *Client
	text   string // empty if nothing is held
}

// Reserve asks Weir to decide and, if it allows the request, to hold the estimate. It sends one
// request. The Decision of the reservation and the error are as from Check. If Weir made
// no decision, the reservation holds nothing, and Weir does not count its commit, like a check by FailMode.
func (c *Client) Reserve(ctx context.Context, reserve Reserve) (*Reservation, error) {
	r := &Reservation{client: c}
	var err error
	r.Decision, err = c.askForDecision(ctx, func(ctx context.Context) (Decision, error) {
		answer, err := c.post(ctx, "/v1/reserve", reserve)
		if err != nil {
			return Decision{}, err
		}
		d, err := answer.decision()
		if err == nil && d.Allowed {
			r.text, err = answer.reservation()
		}
		return d, err
	})
	return r, err
}

// reservation returns the text of the reservation in the reply.
func (r *reply) reservation() (string, error) {
	var body struct{ Reservation string }
	if err := json.Unmarshal(r.text, &body); err != nil || body.Reservation == "" {
		return "", r.err()
	}
	return body.Reservation, nil
}

// Reservation returns the reservation with the text, to commit or renew it in another process than
// the one that made it.
func (c *Client) Reservation(text string) *Reservation { return &Reservation{client: c, text: text} }

// Text returns the reservation as text; empty if it holds nothing.
func (r *Reservation) Text() string { return r.text }

// Committed is the outcome of a commit.
type Committed struct {
	// Committed is false if nothing was held any more: the reservation was committed before, has ended, or
	// an operator reset its key. An earlier sending of this commit, whose answer was lost, may be what
	// committed it, so do not charge the cost again.
	Committed bool
	// Policies are the policies of the reservation.
	Policies []CommittedPolicy
}

// CommittedPolicy is the outcome of a commit for one policy.
type CommittedPolicy struct {
	Policy    string
	Committed bool
	// Cost is the number of units spent, Estimate the number of units that were held.
	Cost, Estimate int64
}

// Commit ends the reservation and spends the actual cost of every policy. It is never denied. It is
// sent again, for up to ResendFor, until Weir answers or ctx ends: use a context that outlives the
// request, such as one from context.WithoutCancel.
func (r *Reservation) Commit(ctx context.Context, cost int64) (Committed, error) {
	return r.commit(ctx, map[string]any{"cost": cost})
}

// CommitCosts is Commit with the actual cost of each policy of the reservation.
func (r *Reservation) CommitCosts(ctx context.Context, costs map[string]int64) (Committed, error) {
	return r.commit(ctx, map[string]any{"costs": costs})
}

// CommitOutcome is Commit for policies that compute their cost from the status of the response, 0 to 999; 0 is
// unknown. All other policies of the reservation spend their estimates.
func (r *Reservation) CommitOutcome(ctx context.Context, code int) (Committed, error) {
	return r.commit(ctx, map[string]any{"response": map[string]any{"code": code}})
}

// Cancel ends the reservation and spends nothing. It is a Commit of 0.
func (r *Reservation) Cancel(ctx context.Context) error {
	_, err := r.Commit(ctx, 0)
	return err
}

func (r *Reservation) commit(ctx context.Context, body map[string]any) (Committed, error) {
	var committed Committed
	if r.text == "" {
		return committed, nil
	}
	body["reservation"] = r.text
	err := r.client.resend(ctx, "/v1/commit", body, &committed)
	return committed, err
}

// Renew moves the end of the reservation to ttl from now; 0 is the longest that its policies allow. open
// is false if the reservation has ended or was committed. It is sent again like a Commit.
func (r *Reservation) Renew(ctx context.Context, ttl time.Duration) (open bool, err error) {
	if r.text == "" {
		return false, nil
	}
	body := map[string]any{"reservation": r.text}
	if ttl != 0 {
		body["ttl"] = ttl.String()
	}
	err = r.client.resend(ctx, "/v1/renew", body, &struct{}{})
	if answer, isAnswer := errors.AsType[*Error](err); isAnswer && answer.Status == http.StatusGone {
		return false, nil
	}
	return err == nil, err
}

// Charge spends units that a request has used already. It is never denied, and each policy spends by itself.
type Charge struct {
	// Check selects the policies and the keys. Its Cost is the number of units. Peek must not be
	// set.
	Check
	// ID makes the call safe to repeat for ten minutes; see Reserve.ID. Empty is a random one.
	ID string `json:"id"`
}

// Charge sends the charge again, like a Commit, until Weir answers. charged is false if its ID was
// charged before, possibly by an earlier sending of this call, whose answer was lost.
func (c *Client) Charge(ctx context.Context, charge Charge) (charged bool, err error) {
	if charge.ID == "" {
		charge.ID = rand.Text()
	}
	var answer struct{ Charged bool }
	err = c.resend(ctx, "/v1/charge", charge, &answer)
	return answer.Charged, err
}
