// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/embedded"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// The scripts run on the embedded server as they do on Redis: limits hold,
// windows and blocks end, and keys go.
func TestScriptsRunEmbedded(t *testing.T) {
	g := gomega.NewWithT(t)
	server, err := embedded.Start()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer server.Close()
	client, err := redisclient.New(server.URL(), time.Second)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer func() { g.Expect(client.Close()).To(gomega.Succeed()) }()

	store := script.NewStore(client, "weir:")
	policy := script.NewPolicy("shop/login", true, false, []script.Limit{
		{Name: "fixed", Algorithm: script.FixedWindow, Quota: 3, Threshold: 3, Window: 50 * time.Millisecond},
		{
			Name: "log", Algorithm: script.SlidingLog, Quota: 2, Threshold: 2, Window: 50 * time.Millisecond,
			Block: 100 * time.Millisecond,
		},
	})
	check := func() script.EntryReply {
		reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{
			{Policy: policy, Key: script.EncodeKey("alice"), Cost: 1},
		}})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return reply.Entries[0]
	}
	g.Expect(check().Verdict).To(gomega.Equal(script.Admitted))
	g.Expect(check().Verdict).To(gomega.Equal(script.Admitted))
	tripped := time.Now()
	refused := check()
	g.Expect(refused.Verdict).To(gomega.Equal(script.Tripped))
	g.Expect(refused.BlockLeft).To(gomega.Equal(101 * time.Millisecond))
	g.Expect(check().Verdict).To(gomega.Equal(script.Blocked))
	g.Eventually(func() script.Verdict { return check().Verdict }).WithPolling(time.Millisecond).
		Should(gomega.Equal(script.Admitted))
	g.Expect(time.Since(tripped)).To(gomega.BeNumerically(">=", 100*time.Millisecond), "blocked to the end")
	g.Eventually(func() int64 { return client.DBSize(t.Context()).Val() }).Should(gomega.BeZero(), "everything expires")
}
