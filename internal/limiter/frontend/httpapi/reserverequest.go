// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"strconv"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The functions below parse bodies and overwrite them. Errors are *limiter.FieldError.

// readBody parses the body, whose members read reads.
func readBody(body []byte, read func(*reader) error) error {
	r := &reader{data: body}
	if err := r.start(); err != nil {
		return err
	}
	if err := read(r); err != nil {
		return err
	}
	return r.end()
}

// readMembers parses the body, an object whose members read reads.
func readMembers(body []byte, read func(r *reader, name string) error) error {
	return readBody(body, func(r *reader) error {
		return r.object(maxMembers, func(name []byte) error { return read(r, string(name)) })
	})
}

// decodeReserve parses the body of a reserve. It reads the check into the request.
func (q *request) decodeReserve(body []byte, reserve *limiter.Reserve) error {
	q.check.Cost = 0
	err := readBody(body, func(r *reader) error {
		return r.check(q, func(name string) (err error) {
			switch name {
			case "id":
				reserve.ID, err = r.id()
			case "ttl":
				reserve.TTL, err = r.ttl()
			case "costs":
				reserve.Costs, err = r.costs(1)
			default:
				err = unknown()
			}
			return err
		})
	})
	switch {
	case err != nil:
		return err
	case q.check.Cost != 0 && reserve.Costs != nil:
		return inField("cost", invalid("cannot be given with costs"))
	}
	q.check.Cost = max(1, q.check.Cost)
	return nil
}

// decodeCharge parses the body of a charge. It reads the check into the request.
func (q *request) decodeCharge(body []byte, charge *limiter.Charge) error {
	err := readBody(body, func(r *reader) error {
		return r.check(q, func(name string) (err error) {
			if name != "id" {
				return unknown()
			}
			charge.ID, err = r.id()
			return err
		})
	})
	charge.Check = q.check
	return err
}

// decodeCommit parses {"reservation"} with "cost", "costs" or neither, and "response", which may be left out beside one.
func decodeCommit(_ *request, body []byte, commit *limiter.Commit) error {
	text, cost := "", limiter.NoCost
	err := readMembers(body, func(r *reader, name string) (err error) {
		switch name {
		case "reservation":
			text, err = r.text()
		case "cost":
			cost, err = r.integer(0, plan.MaxCost)
		case "costs":
			commit.Costs, err = r.costs(0)
		case "response":
			commit.Response, err = r.response()
		default:
			err = unknown()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case cost == limiter.NoCost && commit.Costs == nil && commit.Response == nil:
		return inField("cost", invalid("is required"))
	case cost != limiter.NoCost && commit.Costs != nil:
		return inField("cost", invalid("cannot be given with costs"))
	case commit.Costs != nil:
		cost = 0
	}
	commit.Cost = cost
	commit.Reservation, err = decodeReservation(text)
	return err
}

// decodeReservation parses the text of a reservation that is not one of Envoy.
func decodeReservation(text string) (*limiter.Reservation, error) {
	reservation, err := limiter.DecodeReservation(text)
	if err != nil {
		return nil, err
	}
	return reservation, limiter.RejectEnvoyID("reservation", reservation.ID)
}

// decodeRenew parses {"reservation", "ttl"}.
func decodeRenew(_ *request, body []byte, renew *limiter.Renew) error {
	text := ""
	err := readMembers(body, func(r *reader, name string) (err error) {
		switch name {
		case "reservation":
			text, err = r.text()
		case "ttl":
			renew.TTL, err = r.ttl()
		default:
			err = unknown()
		}
		return err
	})
	if err != nil {
		return err
	}
	renew.Reservation, err = decodeReservation(text)
	return err
}

// id reads the ID of a reservation or a charge. The engine checks its characters.
func (r *reader) id() (string, error) {
	id, err := r.text()
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", invalid("must not be empty")
	}
	return id, limiter.RejectEnvoyID("", id)
}

// ttl reads how long a reservation stays open. The engine checks its upper bound.
func (r *reader) ttl() (time.Duration, error) {
	ttl, err := r.duration()
	if err == nil && ttl < time.Millisecond {
		err = invalid("must be at least 1ms")
	}
	return ttl, err
}

// response reads {"code"}. Without a code it is unknown.
func (r *reader) response() (*limiter.Response, error) {
	response := &limiter.Response{}
	err := r.object(maxMembers, func(name []byte) error {
		if string(name) != "code" {
			return unknown()
		}
		code, err := r.integer(0, plan.MaxResponseCode)
		response.Code = int(code)
		return err
	})
	return response, err
}

// costs reads numbers of units by policy. An empty object is rejected, as an empty list of policies.
func (r *reader) costs(smallest uint64) (limiter.Costs, error) {
	costs := limiter.Costs{}
	err := r.members(limiter.MaxChain, pathOfCost, func(name []byte) (err error) {
		policy := string(name)
		if problem := policyNameProblem(policy, nil); problem != "" {
			return invalid(problem)
		}
		costs[policy], err = r.integer(smallest, plan.MaxCost)
		return err
	})
	if err == nil && len(costs) == 0 {
		err = invalid("must name at least one policy")
	}
	return costs, err
}

// pathOfCost returns the path of a cost within costs, as limiter.CostField does.
func pathOfCost(name []byte) string { return "[" + strconv.Quote(label(name)) + "]" }
