// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Header is the canonical name of the request header with the code, AnswerHeader of the response header with the answer.
const (
	Header       = plan.HeaderProbe
	AnswerHeader = "Weir-Probe"
)

// Life is how long a code is valid.
const Life = 60 * time.Second

// A code has codeLength characters of codeAlphabet, as rand.Text writes them.
const (
	codeLength   = 26
	codeAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// Grant is what the bearer of a code may learn.
type Grant = httptypes.ProbeRequest

// newCode returns a code of 130 random bits.
func newCode() string { return rand.Text() }

// hasForm reports whether the text may be a code.
func hasForm(text string) bool {
	return len(text) == codeLength && strings.Trim(text, codeAlphabet) == ""
}

// hashOf returns the hash by which the code is kept.
func hashOf(code string) string {
	hash := sha256.Sum256([]byte(code))
	return hex.EncodeToString(hash[:])
}
