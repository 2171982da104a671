// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func valid() *plan.Plan {
	return &plan.Plan{
		Namespace: "shop", Name: "login", UID: "u", Generation: 3,
		Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare, Counting: plan.CountAdmitted,
		DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Denial:  plan.Denial{Code: "RateLimited", Message: "<Slow & down>"},
		Matches: []plan.Match{{Hosts: []string{"a.example"}, Paths: []string{"/x/*"}}},
		Key:     []plan.KeyPart{{Type: plan.KeyHeader, Header: "x-api-key"}},
		Limits:  []plan.Limit{{Name: "burst", Algorithm: plan.SlidingLog, Threshold: 5, WindowMillis: 60_000}},
	}
}

func TestCodecRoundTrip(t *testing.T) {
	g := gomega.NewWithT(t)
	data, err := plan.Encode(valid())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	again, err := plan.Encode(valid())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(again).To(gomega.Equal(data), "equal plans have equal bytes")
	decoded, err := plan.Decode(data)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(decoded).To(gomega.Equal(valid()))
}

func TestEncodeRefusesLargePlans(t *testing.T) {
	p := valid()
	p.Denial.Message = strings.Repeat("x", plan.MaxEncodedBytes)
	_, err := plan.Encode(p)
	gomega.NewWithT(t).Expect(err).To(gomega.MatchError(gomega.MatchRegexp(`plan shop/login is \d+ bytes, at most 131072`)))
}

func TestDecodeRefuses(t *testing.T) {
	good, err := plan.Encode(valid())
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	replace := func(old, with string) string { return strings.Replace(string(good), old, with, 1) }
	for name, tc := range map[string]struct{ data, want string }{
		"nothing":            {"", "EOF"},
		"a later version":    {replace(`"version":1`, `"version":2`), "version 2, this release reads version 1"},
		"an unknown member":  {replace(`"mode"`, `"moed":1,"mode"`), "moed"},
		"trailing data":      {string(good) + "{}", "after the end"},
		"no plan":            {`{"version":1}`, "decode plan"},
		"an unknown mode":    {replace(`"Enforce"`, `"Maybe"`), `mode "Maybe"`},
		"an unknown key":     {replace(`"Header"`, `"Cookie"`), "key[0].type"},
		"an unknown counter": {replace(`"SlidingLog"`, `"Abacus"`), "limits[0].algorithm"},
		"no limits":          {replace(`"threshold":5`, `"threshold":0`), "limits[0].threshold"},
		"a large threshold":  {replace(`"threshold":5`, `"threshold":100001`), "limits[0].threshold"},
		"no quota":           {replace(`"threshold":5`, `"threshold":1`)[:0] + strings.Replace(replace(`"threshold":5`, `"threshold":1`), "ThresholdExceeded", "ThresholdReached", 1), "limits[0].threshold"},
		"an endless window":  {replace(`60000`, `2592000001`), "window"},
		"a negative block":   {replace(`60000`, `60000,"blockMillis":-1`), "block"},
		"a name with colons": {replace(`"login"`, `"lo:gin"`), "must be lower-case DNS names"},
		"a limit's name":     {replace(`"burst"`, `"bur:st"`), "limits[0].name"},
		"too much":           {strings.Repeat(" ", plan.MaxEncodedBytes+1), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.Decode([]byte(tc.data))
			gomega.NewWithT(t).Expect(err).To(gomega.MatchError(gomega.ContainSubstring(tc.want)))
		})
	}
}

// Whatever bytes come, Decode ends with an error or with a plan that holds its
// invariants and encodes to what decodes to itself.
func FuzzDecode(f *testing.F) {
	good, err := plan.Encode(valid())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("SlidingLog"), []byte("FixedWindow"), 1))
	f.Add([]byte(`{"version":1,"plan":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := plan.Decode(data)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		encoded, err := plan.Encode(p)
		if err != nil {
			return // the canonical form may be longer than what came
		}
		again, err := plan.Decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		gomega.NewWithT(t).Expect(plan.Encode(again)).To(gomega.Equal(encoded))
	})
}
