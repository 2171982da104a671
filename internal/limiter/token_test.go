// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
)

func textOf(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }

func TestReservationText(t *testing.T) {
	for name, tc := range map[string]struct {
		reservation limiter.Reservation
		json        string
	}{
		"no holds": {limiter.Reservation{ID: "a"}, `{"v":1,"id":"a"}`},
		"two holds": {
			limiter.Reservation{ID: "0<1", Holds: []limiter.Hold{
				{Policy: "shop/usd", Override: "gold", Key: []string{"acme", "-"}, Units: 120},
				{Policy: "shop/all", Units: 1_000_000_000_000},
			}},
			`{"v":1,"id":"0<1","holds":[{"policy":"shop/usd","override":"gold","key":["acme","-"],"units":120},` +
				`{"policy":"shop/all","units":1000000000000}]}`,
		},
		"without Redis": {
			limiter.Reservation{ID: "a", Charged: true, Holds: []limiter.Hold{{Policy: "a/b", Units: 1}}},
			`{"v":1,"id":"a","charge":true,"holds":[{"policy":"a/b","units":1}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.reservation.Encode()).To(Equal(textOf(tc.json)))
			decoded, err := limiter.DecodeReservation(textOf(tc.json))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(*decoded).To(Equal(tc.reservation))
		})
	}
}

func TestInvalidReservations(t *testing.T) {
	for name, tc := range map[string]struct{ text, problem string }{
		"too long":             {strings.Repeat("A", 8193), "is longer than 8192 bytes"},
		"padding":              {base64.URLEncoding.EncodeToString([]byte(`{"v":1,"id":"ab"}`)) + "=", "base64url"},
		"the other alphabet":   {"++++", "base64url"},
		"nothing":              {"", "is required"},
		"no object":            {textOf(`[]`), "JSON of a reservation"},
		"an unknown member":    {textOf(`{"v":1,"id":"a","more":1}`), "JSON of a reservation"},
		"data after its end":   {textOf(`{"v":1,"id":"a"}{}`), "has data after its end"},
		"no version":           {textOf(`{"id":"a"}`), "has version 0, not 1"},
		"a later version":      {textOf(`{"v":2,"id":"a"}`), "has version 2, not 1"},
		"a policy by its name": {textOf(`{"v":1,"id":"a","holds":[{"policy":"a/b","units":1},{"policy":"b","units":1}]}`), "has holds[1].policy"},
		"a path":               {textOf(`{"v":1,"id":"a","holds":[{"policy":"a/b/c","units":1}]}`), "has holds[0].policy"},
		"no units":             {textOf(`{"v":1,"id":"a","holds":[{"policy":"a/b"}]}`), "has holds[0].units, which must be 1..1000000000000"},
		"too many units":       {textOf(`{"v":1,"id":"a","holds":[{"policy":"a/b","units":1000000000001}]}`), "has holds[0].units"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := limiter.DecodeReservation(tc.text)
			var invalid *limiter.FieldError
			g.Expect(errors.As(err, &invalid)).To(BeTrue())
			g.Expect(invalid.Field).To(Equal("reservation"))
			g.Expect(invalid.Problem).To(ContainSubstring(tc.problem))
		})
	}
}

// For any text DecodeReservation returns a *FieldError, or a reservation that encodes to a text with
// the same meaning.
func FuzzDecodeReservation(f *testing.F) {
	f.Add(textOf(`{"v":1,"id":"a","holds":[{"policy":"shop/usd","override":"gold","key":["acme"],"units":120}]}`))
	f.Add(textOf(`{"v":1,"id":"a","charge":true}`))
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		g := NewWithT(t)
		decoded, err := limiter.DecodeReservation(text)
		if err != nil {
			var invalid *limiter.FieldError
			g.Expect(errors.As(err, &invalid) && invalid.Field == "reservation" && invalid.Problem != "").To(BeTrue())
			return
		}
		again := decoded.Encode()
		if len(again) > limiter.MaxReservationBytes {
			return // the input left out escapes
		}
		decoded, err = limiter.DecodeReservation(again)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(decoded.Encode()).To(Equal(again))
	})
}

func TestInvalidReservationRequests(t *testing.T) {
	check := limiter.Check{Policies: []string{"a/b"}, Cost: 1}
	reservation := &limiter.Reservation{ID: "a", Holds: []limiter.Hold{{Policy: "a/b", Units: 1}, {Policy: "a/c", Units: 1}}}
	peek := check
	peek.Peek = true
	for name, tc := range map[string]struct {
		request interface{ Validate() error }
		field   string // empty if the request is valid
	}{
		"a reserve":              {&limiter.Reserve{Check: check, TTL: 24 * 3600e9}, ""},
		"a peek":                 {&limiter.Reserve{Check: peek}, "peek"},
		"an estimate of 0":       {&limiter.Reserve{}, "cost"},
		"a long ttl":             {&limiter.Reserve{Check: check, TTL: 24*3600e9 + 1e6}, "ttl"},
		"a ttl in microseconds":  {&limiter.Reserve{Check: check, TTL: 1e3}, "ttl"},
		"an estimate in costs":   {&limiter.Reserve{Check: check, Costs: limiter.Costs{"a/b": 1, "a/c": 0}}, `costs["a/c"]`},
		"a commit":               {&limiter.Commit{Reservation: reservation, Cost: 1e12}, ""},
		"a cancellation":         {&limiter.Commit{Reservation: reservation}, ""},
		"a negative cost":        {&limiter.Commit{Reservation: reservation, Cost: -1}, "cost"},
		"a large cost":           {&limiter.Commit{Reservation: reservation, Cost: 1e12 + 1}, "cost"},
		"commits by policy":      {&limiter.Commit{Reservation: reservation, Costs: limiter.Costs{"a/b": 0, "a/c": 1e12}}, ""},
		"a response alone":       {&limiter.Commit{Reservation: reservation, Cost: limiter.NoCost, Response: &limiter.Response{Code: 999}}, ""},
		"a large code":           {&limiter.Commit{Reservation: reservation, Response: &limiter.Response{Code: 1000}}, "response.code"},
		"a negative code":        {&limiter.Commit{Reservation: reservation, Response: &limiter.Response{Code: -1}}, "response.code"},
		"a large cost in costs":  {&limiter.Commit{Reservation: reservation, Costs: limiter.Costs{"a/b": 0, "a/c": 1e12 + 1}}, `costs["a/c"]`},
		"a renewal":              {&limiter.Renew{Reservation: reservation, TTL: 1e6}, ""},
		"a renewal in the past":  {&limiter.Renew{Reservation: reservation, TTL: -1e6}, "ttl"},
		"a charge":               {&limiter.Charge{Check: check}, ""},
		"a charge that peeks":    {&limiter.Charge{Check: peek}, "peek"},
		"a charge without units": {&limiter.Charge{}, "cost"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := tc.request.Validate()
			if tc.field == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			var invalid *limiter.FieldError
			g.Expect(errors.As(err, &invalid)).To(BeTrue())
			g.Expect(invalid.Field).To(Equal(tc.field))
		})
	}
}
