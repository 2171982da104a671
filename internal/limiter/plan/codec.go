// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxEncodedBytes is the largest encoding of one plan.
const MaxEncodedBytes = 128 << 10

// ErrInexpressible means that an earlier version has no members for what a plan demands.
var ErrInexpressible = errors.New("the version cannot express the plan")

// versioned is the envelope on the wire.
type versioned struct {
	Version int   `json:"version"`
	Plan    *Plan `json:"plan"`
}

// Encode returns the plan in this release's version: see EncodeAs.
func Encode(p *Plan) ([]byte, error) { return EncodeAs(p, Version) }

// EncodeAs returns the plan as JSON, in this release's version or the one before. Equal plans
// have equal bytes, so a change can be detected by comparing bytes. A plan above
// MaxEncodedBytes is an error with its size. If the version before cannot express the plan,
// the error is ErrInexpressible.
func EncodeAs(p *Plan, version int) ([]byte, error) {
	if version < Version && !expressibleBefore(p) {
		return nil, fmt.Errorf("plan %s in version %d: %w", p.ID(), version, ErrInexpressible)
	}
	data, err := json.Marshal(versioned{Version: version, Plan: p})
	if err != nil {
		return nil, fmt.Errorf("encode plan %s: %w", p.ID(), err)
	}
	if len(data) > MaxEncodedBytes {
		return nil, fmt.Errorf("plan %s is %d bytes, at most %d are allowed", p.ID(), len(data), MaxEncodedBytes)
	}
	return data, nil
}

// Decode parses the output of EncodeAs in this release's version or the one before. It
// rejects other versions, unknown members, trailing data and a plan that violates an
// invariant: a reader that ignored unknown members would enforce a different policy.
func Decode(data []byte) (*Plan, error) {
	if len(data) > MaxEncodedBytes {
		return nil, fmt.Errorf("plan is %d bytes, at most %d are allowed", len(data), MaxEncodedBytes)
	}
	var envelope struct {
		Version int             `json:"version"`
		Plan    json.RawMessage `json:"plan"`
	}
	if err := decodeStrict(data, &envelope); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if envelope.Version > Version || envelope.Version < max(1, Version-1) {
		return nil, fmt.Errorf("decode plan: version %d, this release reads versions %d to %d",
			envelope.Version, max(1, Version-1), Version)
	}
	p := &Plan{}
	if err := decodeStrict(envelope.Plan, p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("decode plan %s: %w", p.ID(), err)
	}
	return p, nil
}

func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end of the plan")
	}
	return nil
}
