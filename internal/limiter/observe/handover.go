// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
)

const (
	// leftLife is how long the part of an ended replica stays: as long as its rates count.
	leftLife = limiter.RateSamples * limiter.RatePeriod
	// maxLeft bounds the parts that ended replicas left, and maxLeftBytes each of them.
	maxLeft      = 32
	maxLeftBytes = 128 << 10
	// countGap is the longest time without observations between two replicas: that between two samples.
	countGap = 2 * limiter.RatePeriod
)

//go:embed leave.lua
var leaveSource string

//go:embed left.lua
var leftSource string

var leaveScript, leftScript = redis.NewScript(leaveSource), redis.NewScript(leftSource)

// leave stores the part of this replica, which ends, where the others read it. Nothing is stored for a
// replica without observations.
func (c *Collector) leave(ctx context.Context) {
	if c.exchange == nil {
		return
	}
	p := c.part([]string{""})
	if len(p.Policies) == 0 {
		return
	}
	encoded, err := p.encodeWithin(maxLeftBytes)
	if err == nil {
		err = c.exchange.leave(ctx, strconv.FormatInt(p.Since, 10), encoded)
	}
	if err != nil {
		c.o.Logger.Warn("Failed to hand over the denied keys and the rates", "error", err)
	}
}

// encodeWithin encodes the part, without the keys, and then without the policies that decided least, if it is
// too large.
func (p *part) encodeWithin(size int) ([]byte, error) {
	slices.SortStableFunc(p.Policies, func(a, b policyPart) int { return cmp.Compare(b.decisions(), a.decisions()) })
	for {
		encoded, err := p.encode()
		if err != nil || len(encoded) <= size || len(p.Policies) == 0 {
			return encoded, err
		}
		if !p.dropKeys() {
			p.Policies = p.Policies[:len(p.Policies)/2]
		}
	}
}

// dropKeys drops all keys, and reports whether there were any.
func (p *part) dropKeys() (dropped bool) {
	for i := range p.Policies {
		dropped = dropped || len(p.Policies[i].Keys) > 0
		p.Policies[i].Keys, p.Policies[i].Unlisted = nil, 0
	}
	return dropped
}

// decisions returns the number of decisions of the last hour.
func (p *policyPart) decisions() (sum int64) {
	r := limiter.NewRates()
	p.Rates.addTo(0, r.Allowed, r.Denied, r.ShadowDenied)
	for i := range r.Allowed {
		sum += r.Allowed[i] + r.Denied[i] + r.ShadowDenied[i]
	}
	return sum
}

func (x *exchange) leave(ctx context.Context, began string, encoded []byte) error {
	_, err := x.run(ctx, leaveScript, []string{x.keys[0], x.left}, x.replica, x.replica+" "+began, encoded, leftLife.Milliseconds(), maxLeft)
	return err
}

// left returns the parts that ended replicas left, none while Redis does not answer. The keys of replicas that ended more than
// a summaryPeriod ago count no more.
func (c *Collector) left(ctx context.Context) (parts []*part) {
	if c.exchange == nil {
		return nil
	}
	_ = c.exchange.readParts(ctx, func(age string, p *part) {
		if millis, err := strconv.ParseInt(age, 10, 64); err != nil || millis > summaryPeriod.Milliseconds() {
			p.dropKeys()
			p.Seconds = 0
		}
		p.Dropped = 0 // since the start of replicas that have ended
		parts = append(parts, p)
	}, leftScript, []string{c.exchange.left}, leftLife.Milliseconds())
	return parts
}

// countedSince returns since when the parts together have counted without a gap, up to the last sample. It is
// zero if that is the whole time of Rates, or if there is no sample.
func countedSince(parts []*part) time.Time {
	slot := int64(0)
	for _, p := range parts {
		slot = max(slot, p.Slot)
	}
	period := int64(limiter.RatePeriod / time.Second)
	since := slot * period
	for extended := true; extended; {
		extended = false
		for _, p := range parts {
			reaches := p.Slot*period+int64(countGap/time.Second) >= since
			if p.Since > 0 && p.Since < since && reaches {
				since, extended = p.Since, true
			}
		}
	}
	if slot == 0 || since <= (slot-limiter.RateSamples)*period {
		return time.Time{}
	}
	return time.Unix(since, 0).UTC()
}
