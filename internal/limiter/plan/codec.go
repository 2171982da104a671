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

// Version is the version of the encoding. A reader rejects every other version, so a release
// that changes the meaning of a plan must raise it. A release that adds a member or a value
// need not: an earlier reader rejects a plan with them and keeps the one it has, and the
// encoding of plans without them does not change.
const Version = 1

// MaxEncodedBytes is the largest encoding of one plan.
const MaxEncodedBytes = 128 << 10

// versioned is the envelope on the wire.
type versioned struct {
	Version int   `json:"version"`
	Plan    *Plan `json:"plan"`
}

// Encode returns the plan as JSON. Equal plans have equal bytes, so a change can be detected
// by comparing bytes. A plan above MaxEncodedBytes is an error with its size.
func Encode(p *Plan) ([]byte, error) {
	data, err := json.Marshal(versioned{Version: Version, Plan: p})
	if err != nil {
		return nil, fmt.Errorf("encode plan %s: %w", p.ID(), err)
	}
	if len(data) > MaxEncodedBytes {
		return nil, fmt.Errorf("plan %s is %d bytes, at most %d are allowed", p.ID(), len(data), MaxEncodedBytes)
	}
	return data, nil
}

// Decode parses the output of Encode. It rejects another version, unknown members, trailing
// data and a plan that violates an invariant: a reader that ignored unknown members would
// enforce a different policy.
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
	if envelope.Version != Version {
		return nil, fmt.Errorf("decode plan: version %d, this release reads version %d", envelope.Version, Version)
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
