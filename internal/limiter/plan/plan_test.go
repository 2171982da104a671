// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testplan"
)

// withOverrides returns a plan with every algorithm and every kind of override.
func withOverrides() *plan.Plan {
	p := testplan.Valid()
	p.Limits = append(p.Limits,
		plan.Limit{Name: "fixed", Algorithm: plan.FixedWindow, Threshold: plan.MaxFixedWindowThreshold, WindowMillis: 1, BlockMillis: 60_000},
		plan.Limit{Name: "window", Algorithm: plan.SlidingWindow, Threshold: 10, WindowMillis: 2, BucketMicros: 2},
		plan.Limit{Name: "bucket", Algorithm: plan.TokenBucket, Threshold: 10, WindowMillis: 1000, Burst: 20},
		plan.Limit{Name: "even", Algorithm: plan.GCRA, Threshold: 10, WindowMillis: 1000, Burst: 1},
		plan.Limit{Name: "shed", Algorithm: plan.Suppressed, Threshold: 10, WindowMillis: 60_000, BucketMicros: 1_000_000, HardLimitPercent: 101},
	)
	p.Overrides = []plan.Override{
		{Name: "gold", Keys: []string{"acme", "gl{o}bex"}, When: `principal != ""`, Action: plan.ActionLimit, Limits: []plan.LimitOverride{
			{Name: "bucket", Threshold: 100, Burst: 200},
			{Name: "shed", WindowMillis: 120_000, BucketMicros: 2_000_000, BlockMillis: 5},
		}},
		{Name: "office", CIDRs: prefixes("10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"), Action: plan.ActionAllow},
		{Name: "banned", CIDRs: prefixes("192.0.2.1/32"), Action: plan.ActionDeny},
	}
	return p
}

// withDescriptors returns a plan that uses every kind of match and of key part.
func withDescriptors() *plan.Plan {
	p := testplan.Valid()
	p.Matches = append(p.Matches, plan.Match{
		Domain: "edge", Descriptors: testplan.Wanted("generic_key=login", "user_id"), When: `descriptor["user_id"] != ""`,
	})
	p.Key = append(p.Key, plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: "user_id"},
		plan.KeyPart{Type: plan.KeyExpression, Expression: "request.path"})
	return p
}

func prefixes(cidrs ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, cidr := range cidrs {
		all = append(all, netip.MustParsePrefix(cidr))
	}
	return all
}

func TestCodecRoundTrip(t *testing.T) {
	for name, build := range map[string]func() *plan.Plan{"plain": testplan.Valid, "withOverrides": withOverrides, "withDescriptors": withDescriptors} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data, err := plan.Encode(build())
			g.Expect(err).NotTo(HaveOccurred())
			again, err := plan.Encode(build())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again).To(Equal(data), "equal plans have equal bytes")
			decoded, err := plan.Decode(data)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(decoded).To(Equal(build()))
		})
	}
}

func TestEncodeRejectsLargePlan(t *testing.T) {
	p := testplan.Valid()
	p.Denial.Message = strings.Repeat("x", plan.MaxEncodedBytes)
	_, err := plan.Encode(p)
	NewWithT(t).Expect(err).To(MatchError(MatchRegexp(`plan shop/login is \d+ bytes, at most 131072`)))
}

func inVersion(version int) string { return fmt.Sprintf(`"version":%d`, version) }

func TestDecodeRejects(t *testing.T) {
	good, err := plan.Encode(testplan.Valid())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	replace := func(old, with string) string { return strings.Replace(string(good), old, with, 1) }
	for name, tc := range map[string]struct{ data, want string }{
		"nothing":            {"", "EOF"},
		"a later version":    {replace(inVersion(plan.Version), inVersion(plan.Version+1)), "this release reads version 1"},
		"no version":         {replace(inVersion(plan.Version), inVersion(0)), "version 0, this release reads version 1"},
		"an unknown member":  {replace(`"mode"`, `"moed":1,"mode"`), "moed"},
		"trailing data":      {string(good) + "{}", "after the end"},
		"no record":          {"{" + inVersion(plan.Version) + "}", "it has no kind"},
		"two records":        {strings.TrimSuffix(string(good), "}") + `,"keyGroup":{}}`, "it has several kinds"},
		"an unknown mode":    {replace(`"Enforce"`, `"Maybe"`), `mode "Maybe"`},
		"an unknown key":     {replace(`"Header"`, `"Body"`), "key[0].type"},
		"an unknown counter": {replace(`"SlidingLog"`, `"Abacus"`), "limits[0].algorithm"},
		"a bad target":       {replace(`"mode"`, `"matches":[{"targets":["HTTPRoute/shop"]}],"mode"`), `matches[0].targets[0] "HTTPRoute/shop" must be`},
		"17 targets":         {replace(`"mode"`, `"matches":[{"targets":[`+strings.Repeat(`"Gateway/a/b",`, 16)+`"Gateway/a/c"]}],"mode"`), "matches[0] has 17 targets, at most 16"},
		"no limits":          {replace(`"threshold":5`, `"threshold":0`), "limits[0].threshold"},
		"a large threshold":  {replace(`"threshold":5`, `"threshold":100001`), "limits[0].threshold"},
		"no quota":           {replace(`"threshold":5`, `"threshold":1`)[:0] + strings.Replace(replace(`"threshold":5`, `"threshold":1`), "ThresholdExceeded", "ThresholdReached", 1), "limits[0].threshold"},
		"an endless window":  {replace(`60000`, `2592000001`), "window"},
		"a negative block":   {replace(`60000`, `60000,"blockMillis":-1`), "block"},
		"a name with colons": {replace(`"login"`, `"lo:gin"`), "must be lower-case DNS names"},
		"a limit's name":     {replace(`"burst"`, `"bur:st"`), "limits[0].name"},
		"too much":           {strings.Repeat(" ", 2<<20), "at most"},
		"a large plan":       {replace(`"mode"`, strings.Repeat(" ", plan.MaxEncodedBytes)+`"mode"`), "at most 131072"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.Decode([]byte(tc.data))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestValidateReservations(t *testing.T) {
	atMost := plan.Reservations{MaxTTLMillis: plan.MaxReservationTTL.Milliseconds(), MaxOpen: plan.MaxOpenReservations}
	for name, tc := range map[string]struct {
		edit func(*plan.Plan)
		want string // empty if the plan is valid
	}{
		"the largest":   {func(p *plan.Plan) { p.Reservations = atMost }, ""},
		"the smallest":  {func(p *plan.Plan) { p.Reservations = plan.Reservations{MaxTTLMillis: 1000, MaxOpen: 1} }, ""},
		"a short TTL":   {func(p *plan.Plan) { p.Reservations = plan.Reservations{MaxTTLMillis: 999, MaxOpen: 1} }, "a maxTTL of 999 ms"},
		"a long TTL":    {func(p *plan.Plan) { p.Reservations, p.Reservations.MaxTTLMillis = atMost, 86_400_001 }, "a maxTTL of 86400001 ms"},
		"none open":     {func(p *plan.Plan) { p.Reservations.MaxTTLMillis = 1000 }, "reservations.maxOpen 0"},
		"many open":     {func(p *plan.Plan) { p.Reservations, p.Reservations.MaxOpen = atMost, 100_001 }, "reservations.maxOpen 100001"},
		"with attempts": {func(p *plan.Plan) { p.Reservations, p.Counting = atMost, plan.CountAttempts }, "reservations need counting Admitted"},
		"with Suppressed": {func(p *plan.Plan) {
			*p = *withOverrides()
			p.Reservations = atMost
		}, "limits[5].algorithm Suppressed supports no reservations"},
		"Concurrency":                      {concurrent(func(*plan.Plan) {}), ""},
		"Concurrency without reservations": {concurrent(func(p *plan.Plan) { p.Reservations = plan.Reservations{} }), "limits[0].algorithm Concurrency needs reservations"},
		"Concurrency with a window":        {concurrent(func(p *plan.Plan) { p.Limits[0].WindowMillis = 1 }), "a window of 1 ms is not for Concurrency"},
		"Concurrency with a block":         {concurrent(func(p *plan.Plan) { p.Limits[0].BlockMillis = 1 }), "limits[0].algorithm Concurrency starts no blocks"},
		"Concurrency with blocks": {concurrent(func(p *plan.Plan) {
			p.Limits[0].BlocksMillis, p.Limits[0].EscalationMillis = []int64{1}, 1
		}), "limits[0].algorithm Concurrency starts no blocks"},
		"Concurrency with a burst": {concurrent(func(p *plan.Plan) { p.Limits[0].Burst = 1 }), "limits[0].burst 1 is out of bounds"},
		"Concurrency that denies at the threshold": {
			concurrent(func(p *plan.Plan) { p.DenyWhen = plan.ThresholdReached }),
			`limits[0].algorithm "Concurrency" supports neither`,
		},
		"Concurrency with a window by an override": {concurrent(func(p *plan.Plan) {
			p.Overrides = []plan.Override{{Name: "o", When: "true", Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "inflight", WindowMillis: 5}}}}
		}), "a window of 5 ms is not for Concurrency"},
	} {
		t.Run(name, func(t *testing.T) {
			p := testplan.Valid()
			tc.edit(p)
			want := Succeed()
			if tc.want != "" {
				want = MatchError(ContainSubstring(tc.want))
			}
			g := NewWithT(t)
			g.Expect(p.Validate()).To(want)
			if tc.want == "" {
				data, err := plan.Encode(p)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(plan.Decode(data)).To(Equal(p))
			}
		})
	}
}

func TestValidateLateCharges(t *testing.T) {
	for from, want := range map[int64]string{
		0: "", 2: "", math.MaxInt32: "", 1: "lateCharges.from 1", -1: "lateCharges.from -1", math.MaxInt32 + 1: "lateCharges.from 2147483648",
	} {
		g := NewWithT(t)
		p := testplan.Valid()
		p.LateCharges.From = from
		if want != "" {
			g.Expect(p.Validate()).To(MatchError(ContainSubstring(want)))
			continue
		}
		g.Expect(p.Validate()).To(Succeed())
		data, err := plan.Encode(p)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(plan.Decode(data)).To(Equal(p))
		g.Expect([]bool{p.LateCharges.Include(from - 1), p.LateCharges.Include(from)}).To(Equal([]bool{false, from > 0}))
	}
}

func TestValidateMatchesAndKeys(t *testing.T) {
	matches := func(m plan.Match) func(*plan.Plan) { return func(p *plan.Plan) { p.Matches = []plan.Match{m} } }
	key := func(part plan.KeyPart) func(*plan.Plan) { return func(p *plan.Plan) { p.Key = []plan.KeyPart{part} } }
	text, code := strings.Repeat("é", plan.MaxText), strings.Repeat("é", plan.MaxExpression)
	for name, tc := range map[string]struct {
		edit func(*plan.Plan)
		want string // empty if the plan is valid
	}{
		"the longest texts":    {matches(plan.Match{Domain: text, Descriptors: []plan.EntryMatch{{Key: text, Value: text}}, When: code}), ""},
		"the longest key":      {key(plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: text}), ""},
		"the longest value":    {key(plan.KeyPart{Type: plan.KeyExpression, Expression: code}), ""},
		"sixteen descriptors":  {matches(plan.Match{Descriptors: make16(plan.EntryMatch{Key: "k"})}), ""},
		"nothing":              {matches(plan.Match{}), "matches[0] is empty"},
		"a long domain":        {matches(plan.Match{Domain: text + "x"}), "matches[0].domain"},
		"no key of an entry":   {matches(plan.Match{Descriptors: []plan.EntryMatch{{Value: "v"}}}), "matches[0].descriptors[0]"},
		"a long key":           {matches(plan.Match{Descriptors: []plan.EntryMatch{{Key: text + "x"}}}), "matches[0].descriptors[0]"},
		"a long value":         {matches(plan.Match{Descriptors: []plan.EntryMatch{{Key: "k", Value: text + "x"}}}), "matches[0].descriptors[0]"},
		"64 exceptions":        {matches(testplan.MatchEntries("k=" + strings.Join(testplan.Words(65, 10, "!%d"), ""))), "65 exceptions"},
		"an exact exception":   {matches(testplan.MatchEntries("k=v!w")), "matches[0].descriptors[0] has 1 exceptions"},
		"an empty exception":   {matches(testplan.MatchEntries("k=!")), "exception 0 must have"},
		"unsorted exceptions":  {matches(testplan.MatchEntries("k=!b!a")), "except[1] is not in ascending order"},
		"a covered exception":  {matches(testplan.MatchEntries("k=!a*!ab*")), "exceptPrefixes[1]"},
		"an empty prefix":      {matches(plan.Match{Descriptors: []plan.EntryMatch{{Key: "k", Prefix: true}}}), "prefix without a value"},
		"no entries to forbid": {matches(plan.Match{Domain: "d", ForbidsOtherEntries: true}), "forbids other entries and wants none"},
		"many descriptors":     {matches(plan.Match{Descriptors: append(make16(plan.EntryMatch{Key: "k"}), plan.EntryMatch{Key: "k"})}), "17 descriptors"},
		"many hosts":           {matches(plan.Match{Hosts: make([]string, 33)}), "33 hosts"},
		"many paths":           {matches(plan.Match{Paths: make([]string, 33)}), "33 paths"},
		"many methods":         {matches(plan.Match{Methods: make([]string, 17)}), "17 methods"},
		"a long condition":     {matches(plan.Match{When: code + "x"}), "matches[0].when"},
		"a part without a key": {key(plan.KeyPart{Type: plan.KeyDescriptor}), "key[0].descriptor"},
		"a part with a key":    {key(plan.KeyPart{Type: plan.KeyPrincipal, Descriptor: "k"}), "key[0].descriptor"},
		"a part of a long key": {key(plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: text + "x"}), "key[0].descriptor"},
		"no expression":        {key(plan.KeyPart{Type: plan.KeyExpression}), "key[0].expression"},
		"an expression":        {key(plan.KeyPart{Type: plan.KeyPrincipal, Expression: "principal"}), "key[0].expression"},
		"a long expression":    {key(plan.KeyPart{Type: plan.KeyExpression, Expression: code + "x"}), "key[0].expression"},
	} {
		t.Run(name, func(t *testing.T) {
			p := testplan.Valid()
			tc.edit(p)
			want := Succeed()
			if tc.want != "" {
				want = MatchError(ContainSubstring(tc.want))
			}
			NewWithT(t).Expect(p.Validate()).To(want)
		})
	}
}

func make16(e plan.EntryMatch) []plan.EntryMatch {
	return slices.Repeat([]plan.EntryMatch{e}, plan.MaxEntries)
}

// For any bytes Decode returns an error, or a valid plan whose encoding decodes to the same
// plan.
func FuzzDecode(f *testing.F) {
	var good []byte
	for _, r := range []plan.Record{withOverrides(), withDescriptors(), keyGroup(), exception(), testplan.Valid()} {
		data, err := plan.Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		good = data
		f.Add(data)
	}
	f.Add(bytes.Replace(good, []byte("SlidingLog"), []byte("FixedWindow"), 1))
	f.Add([]byte(`{"version":1,"plan":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := plan.Decode(data)
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		encoded, err := plan.Encode(r)
		if err != nil {
			return // the canonical form may be longer than the input
		}
		again, err := plan.Decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		NewWithT(t).Expect(plan.Encode(again)).To(Equal(encoded))
		p, isPlan := r.(*plan.Plan)
		if !isPlan {
			return
		}
		for i := range p.Overrides { // what an override makes of the limits holds the same invariants
			merged := *p
			merged.Limits, merged.Overrides = p.LimitsOf(&p.Overrides[i]), nil
			if err := merged.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// concurrent makes the only limit of a plan one with Concurrency, and edits the plan.
func concurrent(edit func(*plan.Plan)) func(*plan.Plan) {
	return func(p *plan.Plan) {
		p.Reservations = plan.Reservations{MaxTTLMillis: 60_000, MaxOpen: 10}
		p.Limits = []plan.Limit{{Name: "inflight", Algorithm: plan.Concurrency, Threshold: 5}}
		p.Overrides = nil
		edit(p)
	}
}
