// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
)

// counter is one key of a policy with an hourly quota.
type counter struct{ policy, key string }

// units are units of counters. A counter that is absent has none.
type units map[counter]int64

// hourly returns the watched counters of the policies with an hourly quota.
func hourly() (all []counter) {
	for _, policy := range []string{"open", "closed", "local"} {
		for i := range keys {
			all = append(all, counter{policy, fmt.Sprint("key-", i)})
		}
	}
	return append(all, counter{"sliced", "key"})
}

// quotaOf returns the hourly quota of the counter.
func quotaOf(c counter) int64 {
	if c.policy == "sliced" {
		return slicedQuota
	}
	return quota
}

// names returns the keys of the counter and of its slices in Redis.
func (c counter) names() []string {
	prefix := fmt.Sprintf("weir:1:c:{%s}:faults/%s:", c.key, c.policy)
	return []string{prefix + "hourly:fw:1h", prefix + "held"}
}

// state is what a server has of one counter.
type state struct {
	used int64
	held map[string]int64 // units of slices, by ID
}

// unreplicated returns what the old master had counted and the replica had not when it was promoted, with the slices of
// which only the old master had a hold.
func unreplicated(old, replica map[counter]state) units {
	lost := units{}
	for c, s := range old {
		lost[c] = max(0, s.used-replica[c].used)
		for id, n := range s.held {
			if _, ok := replica[c].held[id]; !ok {
				lost[c] += n
			}
		}
	}
	return lost
}

// beyond returns by how much the limits admitted more than the quota and the lost units.
func beyond(records []record, quotaOf func(counter) int64, lost units) units {
	over := units{}
	for _, c := range hourly() {
		if n := overAdmitted(of(records, c.policy, c.key), quotaOf(c)+lost[c], time.Hour); n > 0 {
			over[c] = n
		}
	}
	return over
}

// admittedUntil returns the units of calls that the limits admitted and that were sent before the time, or spent until
// then from slices that were taken before.
func admittedUntil(records []record, end time.Time, counters []counter) map[counter]state {
	admitted := map[counter]state{}
	for _, c := range counters {
		sent := filter(of(records, c.policy, c.key), func(r *record) bool {
			return r.start.Before(end) || r.fromSlice && r.start.Before(end.Add(slicedAge))
		})
		admitted[c] = state{used: admittedUnits(sent)}
	}
	return admitted
}

// lastAdmission returns how long after the time the last call was sent that the limits admitted in the
// process.
func lastAdmission(records []record, process int, since time.Time) (last time.Duration) {
	for i := range records {
		if r := &records[i]; r.process == process && r.allowed && r.degraded == "" && !r.failed {
			last = max(last, r.start.Sub(since))
		}
	}
	return last
}

// replica reads counters in a server until it is a master.
type replica struct {
	client   *redis.Client
	counters []counter
	last     map[counter]state // before the promotion
	promoted sync.WaitGroup
}

// watchReplica begins to read the counters. Each reading that is complete replaces the one before.
func watchReplica(tb testing.TB, client *redis.Client, counters []counter) *replica {
	tb.Helper()
	r := &replica{client: client, counters: counters}
	ticker := time.NewTicker(time.Millisecond)
	r.promoted.Go(func() {
		defer ticker.Stop()
		for tb.Context().Err() == nil {
			read, err := readCounters(tb.Context(), client, "slave", counters)
			switch {
			case err == nil:
				r.last = read
			case errors.Is(err, errOtherRole):
				return
			}
			<-ticker.C
		}
	})
	return r
}

// atPromotion waits for the promotion and returns the last counters before it.
func (r *replica) atPromotion(tb testing.TB) map[counter]state {
	tb.Helper()
	r.promoted.Wait()
	NewWithT(tb).Expect(r.last).NotTo(BeEmpty(), "counters of the replica")
	return r.last
}

var errOtherRole = errors.New("the server has another role")

// readState returns the units of the counter, and ID and units of each slice.
const readState = `
local reply = { assert(tonumber(redis.call('GET', KEYS[1]) or 0)) }
local held = redis.call('GET', KEYS[2])
local summary = held and { cmsgpack.unpack(held) } or {}
for i = held and 7 + 2 * summary[6] or 1, #summary, 3 do
  reply[#reply + 1], reply[#reply + 2] = summary[i], summary[i + 1]
end
return reply`

// readCounters reads the counters. The server has the role before and after that.
func readCounters(ctx context.Context, client *redis.Client, role string, counters []counter) (map[counter]state, error) {
	pipe := client.Pipeline()
	pipe.ReadOnly(ctx) // for a Redis Cluster; an error elsewhere
	before := pipe.Info(ctx, "replication")
	values := map[counter]*redis.Cmd{}
	for _, c := range counters {
		values[c] = pipe.EvalRO(ctx, readState, c.names())
	}
	after := pipe.Info(ctx, "replication")
	_, _ = pipe.Exec(ctx) // the commands have the errors
	for _, info := range []*redis.StringCmd{before, after} {
		if err := info.Err(); err != nil {
			return nil, err
		}
		if !strings.Contains(info.Val(), "role:"+role) {
			return nil, errOtherRole
		}
	}
	read := map[counter]state{}
	for c, value := range values {
		reply, err := value.Slice()
		if err != nil {
			return nil, err
		}
		s := state{used: reply[0].(int64), held: map[string]int64{}}
		for i := 1; i < len(reply); i += 2 {
			s.held[reply[i].(string)] = reply[i+1].(int64)
		}
		read[c] = s
	}
	return read, nil
}

// oldMaster returns the counters of a master that gets no more of them.
func oldMaster(tb testing.TB, client *redis.Client) map[counter]state {
	tb.Helper()
	read, err := readCounters(tb.Context(), client, "master", hourly())
	NewWithT(tb).Expect(err).NotTo(HaveOccurred(), "counters of the old master")
	return read
}
