// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unique"
)

// MaxEncodedBytes is the largest encoding of one plan.
const MaxEncodedBytes = 128 << 10

// Version is the version of the encoding of records. It stays: a release that gives records a new meaning adds a member or a
// value, and an earlier release rejects a record with it.
const Version = 1

// versioned is the envelope on the wire, with one record.
type versioned struct {
	Version   int        `json:"version"`
	Plan      *Plan      `json:"plan,omitempty"`
	KeyGroup  *KeyGroup  `json:"keyGroup,omitempty"`
	Exception *Exception `json:"exception,omitempty"`
}

// Encode returns the record as JSON. Equal records have equal bytes, so a change can be detected by comparing bytes. A record
// above its bound, MaxEncodedBytes for a plan, is an error with its size.
func Encode(r Record) ([]byte, error) {
	envelope := versioned{Version: Version}
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

// Decode parses the output of Encode. It rejects other versions, unknown members, trailing data and a record that violates an
// invariant: a reader that ignored unknown members would enforce a different policy.
func Decode(data []byte) (Record, error) {
	if len(data) > maxGroupBytes {
		return nil, fmt.Errorf("record is %d bytes, at most %d are allowed", len(data), maxGroupBytes)
	}
	envelope, err := decodeEnvelope(data)
	if err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	r, err := envelope.record()
	if err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	if len(data) > r.sizeLimit() {
		return nil, fmt.Errorf("decode record: %d bytes, at most %d are allowed", len(data), r.sizeLimit())
	}
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("decode record %s: %w", r.ID(), err)
	}
	return r, nil
}

// StaysFor reports whether a replica keeps the last record in place of an encoding that it cannot decode: not if that is of another
// object, or a plan in another mode. A policy that denies less must not leave its last plan behind.
func StaysFor(last Record, data []byte) bool {
	var found struct {
		Plan, KeyGroup, Exception struct {
			UID  string
			Mode Mode
		}
	}
	_ = json.Unmarshal(data, &found) // what cannot be read counts as equal
	uid := cmp.Or(found.Plan.UID, found.KeyGroup.UID, found.Exception.UID)
	if lastUID, _ := last.Source(); uid != "" && uid != lastUID {
		return false
	}
	p, isPlan := last.(*Plan)
	return !isPlan || found.Plan.Mode == "" || found.Plan.Mode == p.Mode
}

// decodeEnvelope parses the envelope and its records in one pass. Another version may have other members, so the error names
// the version.
func decodeEnvelope(data []byte) (*versioned, error) {
	envelope := &versioned{}
	err := decodeStrict(data, envelope)
	version := envelope.Version
	if err != nil {
		var found struct {
			Version int `json:"version"`
		}
		if json.Unmarshal(data, &found) != nil {
			return nil, err
		}
		version = found.Version
	}
	if version != Version {
		return nil, fmt.Errorf("version %d, this release reads version %d", version, Version)
	}
	return envelope, err
}

// record returns the only record.
func (v *versioned) record() (r Record, err error) {
	for _, found := range []struct {
		record Record
		has    bool
	}{{v.Plan, v.Plan != nil}, {v.KeyGroup, v.KeyGroup != nil}, {v.Exception, v.Exception != nil}} {
		if found.has && r != nil {
			return nil, errors.New("it has several kinds")
		}
		if found.has {
			r = found.record
		}
	}
	if r == nil {
		return nil, errors.New("it has no kind")
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
