// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MaxReservationBytes is the largest text of a reservation.
const MaxReservationBytes = 8 << 10

// reservationVersion is the version of the text.
const reservationVersion = 1

// Reservation names what is held for a request. Callers receive it as text and may read it. It
// proves nothing: Redis has the holds.
type Reservation struct {
	// ID names all its holds.
	ID    string
	Holds []Hold
	// Charged is true if it was given out without Redis: its commit is a charge where no hold is
	// found.
	Charged bool
}

// Hold is what a reservation holds of one key of one policy.
type Hold struct {
	// Policy is "<namespace>/<name>".
	Policy string `json:"policy"`
	// Override names the override that set the limits; empty if none did.
	Override string `json:"override,omitempty"`
	// Key are the encoded parts of the key; empty for the shared budget of a policy.
	Key []string `json:"key,omitempty"`
	// Units is the estimate.
	Units int64 `json:"units"`
}

// encodedReservation is a reservation as JSON.
type encodedReservation struct {
	Version int    `json:"v"`
	ID      string `json:"id"`
	Charged bool   `json:"charge,omitempty"`
	Holds   []Hold `json:"holds,omitempty"`
}

// Encode returns the reservation as text: JSON in base64url, without padding.
func (r *Reservation) Encode() string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(encodedReservation{Version: reservationVersion, ID: r.ID, Charged: r.Charged, Holds: r.Holds}) //nolint:errchkjson // plain data
	return base64.RawURLEncoding.EncodeToString(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// DecodeReservation parses a text of Encode. Its error is a *FieldError about the field
// "reservation". The ID and the keys are not checked.
func DecodeReservation(text string) (*Reservation, error) {
	r, err := decodeReservation(text)
	if err != nil {
		return nil, &FieldError{Field: "reservation", Problem: err.Error()}
	}
	return r, nil
}

func decodeReservation(text string) (*Reservation, error) {
	if text == "" {
		return nil, errors.New("is required")
	}
	if len(text) > MaxReservationBytes {
		return nil, fmt.Errorf("is longer than %d bytes", MaxReservationBytes)
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("is not in base64url without padding")
	}
	var e encodedReservation
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, errors.New("does not contain the JSON of a reservation")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has data after its end")
	}
	if e.Version != reservationVersion {
		return nil, fmt.Errorf("has version %d, not %d", e.Version, reservationVersion)
	}
	for i := range e.Holds {
		if problem := e.Holds[i].problem(); problem != "" {
			return nil, fmt.Errorf("has holds[%d].%s", i, problem)
		}
	}
	return &Reservation{ID: e.ID, Holds: e.Holds, Charged: e.Charged}, nil
}

// problem returns why the hold is invalid, beginning with the field; empty if it is valid.
func (h *Hold) problem() string {
	namespace, name, _ := strings.Cut(h.Policy, "/")
	switch {
	case namespace == "" || name == "" || strings.Contains(name, "/"):
		return "policy, which must be <namespace>/<name>"
	case h.Units < 1 || h.Units > plan.MaxCost:
		return "units, which " + rangeProblem(1)
	}
	return ""
}
