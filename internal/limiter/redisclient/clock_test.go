// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

func TestClock(t *testing.T) {
	g := NewWithT(t)
	local := time.Unix(1_800_000_000, 0)
	c := redisclient.NewClock(func() time.Time { return local })
	pass := func(d time.Duration) { local = local.Add(d) }
	g.Expect(c.Now()).To(Equal(local), "before the first answer")

	server := local.Add(-30 * time.Second)
	c.Learn(server, c.Local())
	pass(time.Hour)
	g.Expect(c.Now()).To(Equal(server.Add(time.Hour)), "without another answer")

	asked := c.Local()
	pass(3 * time.Second)
	c.Learn(server, asked)
	g.Expect(c.Now()).To(Equal(server), "a slow answer, the first for a minute")

	asked = c.Local()
	pass(501 * time.Millisecond)
	c.Learn(server.Add(time.Hour), asked)
	g.Expect(c.Now()).To(Equal(server.Add(501*time.Millisecond)), "a slow answer after another")

	after := server.Add(-time.Minute)
	c.Learn(after, c.Local())
	g.Expect(c.Now()).To(Equal(after), "another server, after a failover")
}

// A process that does not need the time of Redis has no Clock.
func TestNoClock(t *testing.T) {
	g := NewWithT(t)
	var c *redisclient.Clock
	g.Expect(c.Local()).To(BeZero())
	c.Learn(time.Unix(1, 0), c.Local())
}
