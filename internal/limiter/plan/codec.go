// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unique"
)

// MaxEncodedBytes is the largest encoding of one plan.
const MaxEncodedBytes = 128 << 10

// ErrInexpressible means that an earlier version has no members for what a record demands.
var ErrInexpressible = errors.New("the version cannot express the record")

// versioned is the envelope on the wire, with one record.
type versioned struct {
	Version   int        `json:"version"`
	Plan      *Plan      `json:"plan,omitempty"`
	KeyGroup  *KeyGroup  `json:"keyGroup,omitempty"`
	Exception *Exception `json:"exception,omitempty"`
}

// Encode returns the record in this release's version: see EncodeAs.
func Encode(r Record) ([]byte, error) { return EncodeAs(r, Version) }

// EncodeAs returns the record as JSON, in this release's version or the one before. Equal records
// have equal bytes, so a change can be detected by comparing bytes. A record above its bound,
// MaxEncodedBytes for a plan, is an error with its size. If the version before cannot express the record,
// the error is ErrInexpressible.
func EncodeAs(r Record, version int) ([]byte, error) {
	if version < Version && !expressibleBefore(r) {
		return nil, fmt.Errorf("%s %s in version %d: %w", KindOf(r.ID()), r.ID(), version, ErrInexpressible)
	}
	envelope := versioned{Version: version}
	switch r := r.(type) {
	case *Plan:
		envelope.Plan = r
	case *KeyGroup:
		envelope.KeyGroup = r
	case *Exception:
		envelope.Exception = r
	}
	data, err := json.Marshal(envelope)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", KindOf(r.ID()), r.ID(), err)
	}
	if len(data) > r.sizeLimit() {
		return nil, fmt.Errorf("%s %s is %d bytes, at most %d are allowed", KindOf(r.ID()), r.ID(), len(data), r.sizeLimit())
	}
	return data, nil
}

// Decode parses the output of EncodeAs in this release's version or the one before. It
// rejects other versions, unknown members, trailing data and a record that violates an
// invariant: a reader that ignored unknown members would enforce a different policy.
func Decode(data []byte) (Record, error) {
	if len(data) > maxGroupBytes {
		return nil, fmt.Errorf("record is %d bytes, at most %d are allowed", len(data), maxGroupBytes)
	}
	var envelope struct {
		Version   int             `json:"version"`
		Plan      json.RawMessage `json:"plan"`
		KeyGroup  json.RawMessage `json:"keyGroup"`
		Exception json.RawMessage `json:"exception"`
	}
	if err := decodeStrict(data, &envelope); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	if envelope.Version > Version || envelope.Version < max(1, Version-1) {
		return nil, fmt.Errorf("decode record: version %d, this release reads versions %d to %d",
			envelope.Version, max(1, Version-1), Version)
	}
	var r Record
	var member json.RawMessage
	for _, found := range []struct {
		into   Record
		member json.RawMessage
	}{{&Plan{}, envelope.Plan}, {&KeyGroup{}, envelope.KeyGroup}, {&Exception{}, envelope.Exception}} {
		if found.member != nil && member != nil {
			return nil, errors.New("decode record: it has several kinds")
		}
		if found.member != nil {
			r, member = found.into, found.member
		}
	}
	if r == nil {
		return nil, errors.New("decode record: it has no kind")
	}
	if err := decodeRecord(member, r); err != nil {
		return nil, err
	}
	if p, isPlan := r.(*Plan); isPlan {
		p.shareTexts()
	}
	return r, nil
}

// shareTexts replaces common texts by one copy for all plans.
func (p *Plan) shareTexts() {
	share(&p.Namespace)
	share(&p.Mode)
	share(&p.OnMissingKey)
	share(&p.Counting)
	share(&p.DenyWhen)
	share(&p.FailureMode)
	share(&p.Denial.Code)
	for i := range p.Limits {
		share(&p.Limits[i].Name)
		share(&p.Limits[i].Algorithm)
	}
}

func share[T ~string](text *T) { *text = T(unique.Make(string(*text)).Value()) }

// DecodePlan is Decode for the encoding of a plan.
func DecodePlan(data []byte) (*Plan, error) {
	r, err := Decode(data)
	if err != nil {
		return nil, err
	}
	p, ok := r.(*Plan)
	if !ok {
		return nil, fmt.Errorf("decode plan: %s is a %s", r.ID(), KindOf(r.ID()))
	}
	return p, nil
}

// decodeRecord parses one record, whose size must be within the bound of its kind.
func decodeRecord(data []byte, into Record) error {
	if len(data) > into.sizeLimit() {
		return fmt.Errorf("decode record: %d bytes, at most %d are allowed", len(data), into.sizeLimit())
	}
	if err := decodeStrict(data, into); err != nil {
		return fmt.Errorf("decode record: %w", err)
	}
	if err := into.Validate(); err != nil {
		return fmt.Errorf("decode record %s: %w", into.ID(), err)
	}
	return nil
}

func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end of the record")
	}
	return nil
}
