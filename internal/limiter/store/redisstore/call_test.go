// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// One EVALSHA decides, for any number of policies and algorithms. If Redis does not have
// the script, or has lost it, the same call loads it.
func TestOneScriptCallDecides(t *testing.T) {
	g := NewWithT(t)
	client := newClient(t, testenv.StartRedis(t).Addr)
	backend := newStore(client)
	call := &store.Call{}
	for i := range 3 {
		var limits []store.Limit
		for _, a := range algorithms {
			l := storetest.SlowLimit(a, 100)
			l.Name, l.Block = string(a), time.Hour
			limits = append(limits, l)
		}
		call.Entries = append(call.Entries, store.Entry{
			Policy: store.NewPolicy(fmt.Sprintf("test/p%d", i), false, i == 2, limits), Key: "a", Cost: 1,
		})
	}
	calls := func(of string) string {
		info, err := client.Info(t.Context(), "commandstats").Result()
		g.Expect(err).NotTo(HaveOccurred())
		found := regexp.MustCompile(`cmdstat_` + of + `:calls=(\d+)`).FindStringSubmatch(info)
		if found == nil {
			return "0"
		}
		return found[1]
	}
	evaluate := func() {
		g.Expect(client.ConfigResetStat(t.Context()).Err()).To(Succeed())
		reply, err := backend.Evaluate(t.Context(), call)
		g.Expect(err).NotTo(HaveOccurred())
		for _, e := range reply.Entries {
			g.Expect(e.Verdict).To(Equal(store.Admitted))
		}
	}
	evaluate()
	g.Expect([]string{calls("evalsha"), calls("eval")}).To(Equal([]string{"1", "1"}), "loaded in the same call")
	evaluate()
	g.Expect([]string{calls("evalsha"), calls("eval")}).To(Equal([]string{"1", "0"}))
	g.Expect(client.ScriptFlush(t.Context()).Err()).To(Succeed())
	evaluate()
	g.Expect([]string{calls("evalsha"), calls("eval")}).To(Equal([]string{"1", "1"}), "loaded again")
}
