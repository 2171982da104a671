// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// pageSize bounds the members in one reply of Redis, which decides nothing meanwhile.
const pageSize = 2000

// Reader reads what all replicas have reported.
type Reader struct {
	client redis.UniversalClient
	prefix string
}

// NewReader returns a Reader of the reports under the prefix.
func NewReader(client redis.UniversalClient, prefix string) *Reader {
	return &Reader{client: client, prefix: prefix}
}

// Read returns the sightings that were reported at or after the time, the oldest first. The zero time
// returns all. A sighting that is reported again during the call can be in the list twice.
func (r *Reader) Read(ctx context.Context, since time.Time) ([]plan.Sighting, error) {
	var sightings []plan.Sighting
	err := r.visit(ctx, sightingSet, since, func(fields []string, at time.Time) {
		if len(fields) == 3 {
			sightings = append(sightings, plan.Sighting{
				Policy: fields[0], Selectors: fields[1], Target: plan.Target(fields[2]), At: at,
			})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read which policies have traffic: %w", err)
	}
	return sightings, nil
}

// visit visits the members that were added to the set at or after the time, the oldest first, by the fields
// that spaces separate.
func (r *Reader) visit(ctx context.Context, set reportSet, since time.Time, member func(fields []string, at time.Time)) error {
	var from int64
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	for count := int64(pageSize); ; {
		page, err := r.page(ctx, set, from, count)
		if err != nil {
			return err
		}
		isLast, next := int64(len(page)) < count, int64(math.MaxInt64)
		if !isLast {
			next = int64(page[len(page)-1].Score) // the next page begins with the reports of this millisecond
		}
		if next == from { // more reports in one millisecond than a page has
			count *= 2
			continue
		}
		for i := range page {
			if at := int64(page[i].Score); at < next {
				text, _ := page[i].Member.(string)
				member(strings.Split(text, " "), time.UnixMilli(at))
			}
		}
		if isLast {
			return nil
		}
		from, count = next, pageSize
	}
}

func (r *Reader) page(ctx context.Context, set reportSet, from, count int64) ([]redis.Z, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: r.prefix + set.key, Start: strconv.FormatInt(from, 10), Stop: "+inf", ByScore: true, Count: count,
	}).Result()
}
