// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// lookupsPerSecond bounds the codes that a replica looks up.
const lookupsPerSecond = 20

// Options configure a Prober. All are required, except for ReplicaName.
type Options struct {
	Store Store
	// Snapshot returns the plans in force, or nil before the first are loaded.
	Snapshot func() *index.Snapshot
	// Timeout bounds a look-up of a code.
	Timeout time.Duration
	// Now is the clock that bounds the look-ups.
	Now         func() time.Time
	ReplicaName string
	Logger      *slog.Logger
}

// Prober issues codes and answers requests that have one. A nil Prober answers none.
type Prober struct {
	options Options
	mu      sync.Mutex
	second  int64 // in which lookups were made
	lookups int
}

// New returns a Prober.
func New(o Options) *Prober { return &Prober{options: o} }

// issueTimeout bounds how long Issue waits for the store.
const issueTimeout = 2 * time.Second

// Issue returns a code with the grant, which is valid for Life.
func (p *Prober) Issue(ctx context.Context, g Grant) (code string, err error) {
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	code = newCode()
	return code, p.options.Store.Put(ctx, hashOf(code), g, Life)
}

// Request is a request that a frontend decides.
type Request struct {
	// Codes are the values of Header.
	Codes []string
	// Frontend is the name of the frontend.
	Frontend string
	// Attributes are the facts of the request, without Header. They are not changed.
	Attributes *plan.Attributes
	// Policies are those that the proxy names; empty means that Attributes select.
	Policies []string
	// Problem is why the frontend would reject the request, or nil.
	Problem error
}

// Answer returns the value of AnswerHeader if the request has a valid code, which is then used up. Otherwise ok is false, and the
// request is to be decided as any other.
func (p *Prober) Answer(ctx context.Context, r *Request) (value string, ok bool) {
	if p == nil || len(r.Codes) != 1 || !hasForm(r.Codes[0]) || !p.mayLookUp() {
		return "", false
	}
	bounded, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	grant, found, err := p.options.Store.Take(bounded, hashOf(r.Codes[0]))
	if err != nil || !found {
		return "", false
	}
	p.options.Logger.InfoContext(ctx, "Answered a probe", "door", r.Frontend, "namespace", grant.Namespace)
	return encode(p.report(r, grant)), true
}

// mayLookUp reports whether a further code may be looked up in this second, and counts it.
func (p *Prober) mayLookUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if second := p.options.Now().Unix(); second != p.second {
		p.second, p.lookups = second, 0
	}
	p.lookups++
	return p.lookups <= lookupsPerSecond
}

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
