// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
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
	key    string
}

// NewReader returns a Reader of the reports under the prefix.
func NewReader(client redis.UniversalClient, prefix string) *Reader {
	return &Reader{client: client, key: prefix + trafficKey}
}

// Read returns the sightings that were reported at or after the time, the oldest first. The zero time
// returns all. A sighting that is reported again during the call can be in the list twice.
func (r *Reader) Read(ctx context.Context, since time.Time) ([]plan.Sighting, error) {
	var from int64
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	var sightings []plan.Sighting
	for count := int64(pageSize); ; {
		page, err := r.page(ctx, from, count)
		if err != nil {
			return nil, fmt.Errorf("read which policies have traffic: %w", err)
		}
		if int64(len(page)) == count {
			last := int64(page[len(page)-1].Score)
			if last == from { // more reports in one millisecond than a page has
				count *= 2
				continue
			}
			// The next page begins with the reports of the last millisecond.
			for i := range page {
				if int64(page[i].Score) < last {
					sightings = appendSighting(sightings, &page[i])
				}
			}
			from, count = last, pageSize
			continue
		}
		for i := range page {
			sightings = appendSighting(sightings, &page[i])
		}
		return sightings, nil
	}
}

func (r *Reader) page(ctx context.Context, from, count int64) ([]redis.Z, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: r.key, Start: strconv.FormatInt(from, 10), Stop: "+inf", ByScore: true, Count: count,
	}).Result()
}

// appendSighting appends the sighting of the member, unless Weir has not written it.
func appendSighting(list []plan.Sighting, z *redis.Z) []plan.Sighting {
	member, _ := z.Member.(string)
	fields := strings.Split(member, " ")
	if len(fields) != 3 {
		return list
	}
	return append(list, plan.Sighting{
		Policy: fields[0], Selectors: fields[1], Target: plan.Target(fields[2]), At: time.UnixMilli(int64(z.Score)),
	})
}
