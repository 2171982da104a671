// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testplan"
)

func TestLimitsOf(t *testing.T) {
	g := NewWithT(t)
	p := withOverrides()
	before := withOverrides()
	merged := p.LimitsOf(&p.Overrides[0])
	g.Expect(p).To(Equal(before), "a plan never changes")
	g.Expect(merged).To(HaveLen(len(p.Limits)))
	g.Expect(merged[:3]).To(Equal(p.Limits[:3]), "a limit that is not named keeps its numbers")
	g.Expect(merged[3]).To(Equal(plan.Limit{
		Name: "bucket", Algorithm: plan.TokenBucket, Threshold: 100, WindowMillis: 1000, Burst: 200, StateSuffix: "gold",
	}))
	g.Expect(merged[5]).To(Equal(plan.Limit{
		Name: "shed", Algorithm: plan.Suppressed, Threshold: 10, WindowMillis: 120_000, BucketMicros: 2_000_000,
		HardLimitPercent: 101, BlockMillis: 5,
	}))
	g.Expect(p.LimitsOf(&p.Overrides[1])).To(Equal(p.Limits))
}

func TestQuota(t *testing.T) {
	for name, tc := range map[string]struct {
		limit       plan.Limit
		denyWhen    plan.DenyWhen
		quota, hard int64
	}{
		"counts":                 {plan.Limit{Algorithm: plan.SlidingWindow, Threshold: 5}, plan.ThresholdExceeded, 5, 0},
		"counts, denied earlier": {plan.Limit{Algorithm: plan.SlidingWindow, Threshold: 5}, plan.ThresholdReached, 4, 0},
		"a bucket":               {plan.Limit{Algorithm: plan.TokenBucket, Threshold: 5, Burst: 7}, plan.ThresholdExceeded, 7, 0},
		"evenly":                 {plan.Limit{Algorithm: plan.GCRA, Threshold: 5, Burst: 2}, plan.ThresholdExceeded, 2, 0},
		"sheds":                  {plan.Limit{Algorithm: plan.Suppressed, Threshold: 5, HardLimitPercent: 150}, plan.ThresholdExceeded, 5, 7},
		"sheds hardly":           {plan.Limit{Algorithm: plan.Suppressed, Threshold: 1, HardLimitPercent: 101}, plan.ThresholdExceeded, 1, 1},
		"sheds a lot":            {plan.Limit{Algorithm: plan.Suppressed, Threshold: plan.MaxThreshold, HardLimitPercent: 1000}, plan.ThresholdExceeded, plan.MaxThreshold, 10 * plan.MaxThreshold},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := testplan.Valid()
			p.DenyWhen = tc.denyWhen
			g.Expect(p.Quota(tc.limit)).To(Equal(tc.quota))
			g.Expect(tc.limit.HardQuota()).To(Equal(tc.hard))
		})
	}
	limit := plan.Limit{WindowMillis: 1500, BucketMicros: 25, BlockMillis: 1}
	g := NewWithT(t)
	g.Expect([]time.Duration{limit.Window(), limit.Bucket(), limit.Block()}).To(Equal(
		[]time.Duration{1500 * time.Millisecond, 25 * time.Microsecond, time.Millisecond}))
}

// Every invalid edit is rejected with a message that names the field.
func TestValidateLimits(t *testing.T) {
	type edit = func(*plan.Plan)
	limit := func(i int, change func(*plan.Limit)) edit { return func(p *plan.Plan) { change(&p.Limits[i]) } }
	for name, tc := range map[string]struct {
		edit edit
		want string
	}{
		"a burst that nothing uses":  {limit(0, func(l *plan.Limit) { l.Burst = 1 }), "limits[0].burst 1"},
		"no burst":                   {limit(3, func(l *plan.Limit) { l.Burst = 0 }), "limits[3].burst 0"},
		"a large burst":              {limit(4, func(l *plan.Limit) { l.Burst = 1 << 31 }), "limits[4].burst"},
		"a burst for centuries":      {limit(3, func(l *plan.Limit) { l.Threshold, l.Burst, l.WindowMillis = 1, 1217, plan.MaxWindow.Milliseconds() }), "limits[3].burst 1217 takes more than a hundred years"},
		"no rate":                    {limit(4, func(l *plan.Limit) { l.Threshold = 0 }), "limits[4].threshold 0"},
		"a bucket that nothing uses": {limit(1, func(l *plan.Limit) { l.BucketMicros = 1 }), "limits[1]: a bucket of 1 us is only for SlidingWindow and Suppressed"},
		"a short window of buckets":  {limit(2, func(l *plan.Limit) { l.WindowMillis, l.BucketMicros = 1, 500 }), "limits[2]: a bucket of 500 us"},
		"no bucket":                  {limit(5, func(l *plan.Limit) { l.BucketMicros = 0 }), "limits[5]: a bucket of 0 us"},
		"a large bucket":             {limit(5, func(l *plan.Limit) { l.BucketMicros = 30_000_001 }), "limits[5]: a bucket"},
		"a small bucket":             {limit(5, func(l *plan.Limit) { l.BucketMicros = 59_999 }), "limits[5]: a bucket"},
		"a bucket beyond bounds":     {limit(5, func(l *plan.Limit) { l.BucketMicros = math.MaxInt64 }), "limits[5]: a bucket"},
		"no hard limit":              {limit(5, func(l *plan.Limit) { l.HardLimitPercent = 100 }), "limits[5].hardLimitPercent 100"},
		"a high hard limit":          {limit(5, func(l *plan.Limit) { l.HardLimitPercent = 1001 }), "limits[5].hardLimitPercent 1001"},
		"a warning above 100":        {limit(0, func(l *plan.Limit) { l.WarnPercent = 101 }), "limits[0].warnPercent 101"},
		"a negative warning":         {limit(0, func(l *plan.Limit) { l.WarnPercent = -1 }), "limits[0].warnPercent -1"},
		"a hard limit of no use":     {limit(0, func(l *plan.Limit) { l.HardLimitPercent = 150 }), "limits[0].hardLimitPercent"},
		"counted attempts":           {func(p *plan.Plan) { p.Counting = plan.CountAttempts }, `limits[3].algorithm "TokenBucket" supports neither`},
		"denied at the threshold":    {func(p *plan.Plan) { p.DenyWhen = plan.ThresholdReached }, `limits[5].algorithm "Suppressed" supports neither`},
	} {
		t.Run(name, func(t *testing.T) {
			p := withOverrides()
			tc.edit(p)
			NewWithT(t).Expect(p.Validate()).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestLargestBurstIsValid(t *testing.T) {
	p := withOverrides()
	l := &p.Limits[3]
	l.Threshold, l.Burst = 1, 1216
	l.WindowMillis = plan.MaxWindow.Milliseconds()
	NewWithT(t).Expect(p.Validate()).To(Succeed(), "almost a hundred years")
}

func TestSmallestAndLargestBucketsAreValid(t *testing.T) {
	for _, micros := range []int64{60_000, 30_000_000} {
		p := withOverrides()
		p.Limits[5].BucketMicros = micros
		NewWithT(t).Expect(p.Validate()).To(Succeed())
	}
}

func TestValidateOverrides(t *testing.T) {
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("k", i))
		}
		return all
	}
	for name, tc := range map[string]struct {
		edit func(o *plan.Override, p *plan.Plan)
		want string
	}{
		"a name with colons":   {func(o *plan.Override, _ *plan.Plan) { o.Name = "g:old" }, "overrides[0].name"},
		"a name twice":         {func(o *plan.Override, _ *plan.Plan) { o.Name = "office" }, "overrides[1].name"},
		"no selector":          {func(o *plan.Override, _ *plan.Plan) { o.Keys, o.When = nil, "" }, "overrides[0] has no selector"},
		"too many keys":        {func(o *plan.Override, _ *plan.Plan) { o.Keys = many(257) }, "overrides[0] has 257 keys"},
		"too many networks":    {func(o *plan.Override, _ *plan.Plan) { o.CIDRs = make([]netip.Prefix, 257) }, "and 257 cidrs"},
		"an empty key":         {func(o *plan.Override, _ *plan.Plan) { o.Keys = []string{"a", ""} }, "overrides[0].keys hold an empty value"},
		"keys of no key":       {func(_ *plan.Override, p *plan.Plan) { p.Key = nil }, "a key of one part, not of 0"},
		"keys of two parts":    {func(_ *plan.Override, p *plan.Plan) { p.Key = append(p.Key, p.Key[0]) }, "a key of one part, not of 2"},
		"no network":           {func(o *plan.Override, _ *plan.Plan) { o.CIDRs = []netip.Prefix{{}} }, "overrides[0].cidrs[0]"},
		"host bits":            {func(o *plan.Override, _ *plan.Plan) { o.CIDRs = prefixes("10.0.0.1/8") }, `"10.0.0.1/8" is not a normalized network`},
		"mapped":               {func(o *plan.Override, _ *plan.Plan) { o.CIDRs = prefixes("::ffff:10.0.0.0/104") }, "is not a normalized network"},
		"a long expression":    {func(o *plan.Override, _ *plan.Plan) { o.When = strings.Repeat("é", 1025) }, "overrides[0].when is longer than 1024"},
		"an unknown action":    {func(o *plan.Override, _ *plan.Plan) { o.Action = "Delay" }, "overrides[0].action"},
		"limits to allow with": {func(o *plan.Override, _ *plan.Plan) { o.Action = plan.ActionAllow }, `action "Allow" and 2 limits`},
		"no limits to limit":   {func(o *plan.Override, _ *plan.Plan) { o.Limits = nil }, `action "Limit" and 0 limits`},
		"an unknown limit":     {func(o *plan.Override, _ *plan.Plan) { o.Limits[0].Name = "x" }, "overrides[0].limits[0].name"},
		"a limit twice":        {func(o *plan.Override, _ *plan.Plan) { o.Limits[1].Name = "bucket" }, "overrides[0].limits[1].name"},
		"a merged threshold": {func(o *plan.Override, _ *plan.Plan) {
			o.Limits[0] = plan.LimitOverride{Name: "burst", Threshold: 100_001}
		}, "overrides[0].limits[0].threshold 100001"},
		"a negative threshold": {func(o *plan.Override, _ *plan.Plan) { o.Limits[0].Threshold = -1 }, "overrides[0].limits[0].threshold -1"},
		"a merged burst":       {func(o *plan.Override, _ *plan.Plan) { o.Limits[0].Name = "burst" }, "overrides[0].limits[0].burst 200"},
		"a merged bucket":      {func(o *plan.Override, _ *plan.Plan) { o.Limits[1].WindowMillis = 3_000 }, "overrides[0].limits[1]: a bucket of 2000000 us is out of bounds for a window of 3000 ms"},
		"a merged window":      {func(o *plan.Override, _ *plan.Plan) { o.Limits[0].WindowMillis = -5 }, "overrides[0].limits[0]: a window of -5 ms"},
		"too many": {func(_ *plan.Override, p *plan.Plan) {
			for i := range 64 {
				p.Overrides = append(p.Overrides, plan.Override{Name: fmt.Sprint("o", i), When: "true", Action: plan.ActionDeny})
			}
		}, "67 overrides, at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			p := withOverrides()
			tc.edit(&p.Overrides[0], p)
			NewWithT(t).Expect(p.Validate()).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// The largest possible override fits into an encoded plan, and so do several with fewer keys.
func TestLargestOverrideFits(t *testing.T) {
	g := NewWithT(t)
	p := withOverrides()
	p.Overrides = nil
	for i := range plan.MaxOverrides {
		p.Overrides = append(p.Overrides, plan.Override{
			Name: fmt.Sprintf("override-%d", i), Keys: []string{fmt.Sprint("key-", i)}, When: strings.Repeat("x", plan.MaxExpression),
			Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "bucket", Threshold: 1 << 30, Burst: 1 << 30, WindowMillis: 1 << 30}},
		})
	}
	_, err := plan.Encode(p)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestOverrideReplacesAllLengthsOfBlocks(t *testing.T) {
	p := testplan.Valid()
	p.Limits[0].BlocksMillis, p.Limits[0].EscalationMillis = []int64{1000, 1000, 5000}, 60_000
	p.Overrides = []plan.Override{{Name: "o", When: "true", Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", Threshold: 2}}}}
	g := NewWithT(t)
	g.Expect(p.Validate()).To(Succeed())
	g.Expect(p.LimitsOf(&p.Overrides[0])[0].BlocksMillis).To(Equal([]int64{1000, 1000, 5000}))
	p.Overrides[0].Limits[0].BlockMillis = 7
	g.Expect(p.Validate()).To(Succeed())
	other := p.LimitsOf(&p.Overrides[0])[0]
	g.Expect([]any{other.BlockMillis, other.BlocksMillis, other.EscalationMillis}).To(Equal([]any{int64(7), []int64(nil), int64(0)}))
	g.Expect([]time.Duration{other.LongestBlock(), p.Limits[0].LongestBlock()}).To(Equal([]time.Duration{7 * time.Millisecond, 5 * time.Second}))
}

func TestValidateLengthsOfBlocks(t *testing.T) {
	month := plan.MaxWindow.Milliseconds()
	for name, tc := range map[string]struct {
		blocks            []int64
		escalation, block int64
		want              string // empty if the plan is valid
	}{
		"the longest":       {[]int64{1, 1, 1, 1, 1, 1, 1, month}, month, 0, ""},
		"too many":          {[]int64{1, 1, 1, 1, 1, 1, 1, 1, 1}, 1, 0, "9 lengths of blocks"},
		"shorter ones":      {[]int64{2, 1}, 1, 0, "limits[0].blocksMillis[1]: 1 ms is out of bounds"},
		"none":              {[]int64{0}, 1, 0, "limits[0].blocksMillis[0]: 0 ms is out of bounds"},
		"too long":          {[]int64{month + 1}, 1, 0, "is out of bounds"},
		"one length beside": {[]int64{1}, 1, 1, "1 lengths of blocks beside one of 1 ms"},
		"no escalation":     {[]int64{1}, 0, 0, "an escalation of 0 ms with 1 lengths"},
		"a long escalation": {[]int64{1}, month + 1, 0, "an escalation of"},
		"only escalation":   {nil, 1, 0, "an escalation of 1 ms with 0 lengths"},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := NewWithT(t), testplan.Valid()
			p.Limits[0].BlocksMillis, p.Limits[0].EscalationMillis, p.Limits[0].BlockMillis = tc.blocks, tc.escalation, tc.block
			if tc.want != "" {
				g.Expect(p.Validate()).To(MatchError(ContainSubstring(tc.want)))
				return
			}
			data, err := plan.Encode(p)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(plan.Decode(data)).To(Equal(p))
		})
	}
}
