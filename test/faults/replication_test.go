// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	return all
}

// name returns the key of the counter in Redis.
func (c counter) name() string {
	return fmt.Sprintf("weir:1:c:{%s}:faults/%s:hourly:fw:1h", c.key, c.policy)
}

// unreplicated returns what the old master had counted and the replica had not when it was promoted.
func unreplicated(old, replica units) units {
	lost := units{}
	for c, n := range old {
		lost[c] = max(0, n-replica[c])
	}
	return lost
}

// beyond returns by how much the limits admitted more than the quota and the lost units.
func beyond(records []record, quota int64, lost units) units {
	over := units{}
	for _, c := range hourly() {
		if n := overAdmitted(of(records, c.policy, c.key), quota+lost[c], time.Hour); n > 0 {
			over[c] = n
		}
	}
	return over
}

// admittedUntil returns the units of calls that the limits admitted and that were sent before the time.
func admittedUntil(records []record, end time.Time, counters []counter) units {
	admitted := units{}
	for _, c := range counters {
		sent := filter(of(records, c.policy, c.key), func(r *record) bool { return r.start.Before(end) })
		admitted[c] = admittedUnits(sent)
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
	last     units // before the promotion
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
func (r *replica) atPromotion(tb testing.TB) units {
	tb.Helper()
	r.promoted.Wait()
	NewWithT(tb).Expect(r.last).NotTo(BeEmpty(), "counters of the replica")
	return r.last
}

var errOtherRole = errors.New("the server has another role")

// readCounters reads the counters. The server has the role before and after that.
func readCounters(ctx context.Context, client *redis.Client, role string, counters []counter) (units, error) {
	pipe := client.Pipeline()
	pipe.ReadOnly(ctx) // for a Redis Cluster; an error elsewhere
	before := pipe.Info(ctx, "replication")
	values := map[counter]*redis.StringCmd{}
	for _, c := range counters {
		values[c] = pipe.Get(ctx, c.name())
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
	read := units{}
	for c, value := range values {
		n, err := value.Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		read[c] = n
	}
	return read, nil
}

// oldMaster returns the counters of a master that gets no more of them.
func oldMaster(tb testing.TB, client *redis.Client) units {
	tb.Helper()
	read, err := readCounters(tb.Context(), client, "master", hourly())
	NewWithT(tb).Expect(err).NotTo(HaveOccurred(), "counters of the old master")
	return read
}

// total returns the sum.
func (u units) total() (sum int64) {
	for n := range maps.Values(u) {
		sum += n
	}
	return sum
}
