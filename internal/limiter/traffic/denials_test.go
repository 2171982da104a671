// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

func identityOf(name string) plan.Identity { return plan.Identity{ID: "a/" + name, UID: name} }

func TestDenialsAreReported(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	r, reader := newReplica(t, client, "x", "y"), NewReader(client, "weir:")
	r.mark()
	r.report(t.Context())
	g.Expect(reader.Denials(t.Context())).To(BeEmpty())

	r.marked[1].MarkDenial()
	r.report(t.Context())
	list, err := reader.Denials(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(HaveLen(1))
	g.Expect(list[0].Identity).To(Equal(identityOf("y")))
	g.Expect(list[0].At).To(BeTemporally("~", time.Now(), 30*time.Second))
	g.Expect(client.PTTL(t.Context(), "weir:{registry}:denials").Val()).To(BeNumerically("~", 5*time.Minute, 10*time.Second))
	g.Expect(reader.Read(t.Context(), time.Time{})).To(HaveLen(2), "sightings have a set of their own")
}

func TestDenialsAreReportedEvery15Seconds(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	r := newReplica(t, client, "x")
	reports := 0
	for range 60 {
		client.Del(t.Context(), "weir:{registry}:denials")
		r.marked[0].MarkDenial()
		r.report(t.Context())
		reports += int(client.Exists(t.Context(), "weir:{registry}:denials").Val())
		r.now = r.now.Add(time.Second)
	}
	g.Expect(reports).To(Equal(4))
}

func TestAnnouncementsAreKeptForTheNextLeader(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	reader := NewReader(client, "weir:")
	x, y, z := identityOf("x"), identityOf("y"), identityOf("z")
	g.Expect(reader.Announced(t.Context())).To(BeEmpty())
	g.Expect(reader.Announce(t.Context(), []plan.Identity{x, y}, nil)).To(Succeed())
	g.Expect(NewReader(client, "weir:").Announced(t.Context())).To(ConsistOf(x, y))
	g.Expect(reader.Announce(t.Context(), []plan.Identity{z}, []plan.Identity{x, identityOf("unknown")})).To(Succeed())
	g.Expect(NewReader(client, "weir:").Announced(t.Context())).To(ConsistOf(y, z))
	g.Expect(client.PTTL(t.Context(), "weir:{registry}:denying").Val()).To(BeNumerically("~", 24*time.Hour, time.Minute))

	many := make([]plan.Identity, 2*pageSize+1)
	for i := range many {
		many[i] = identityOf(fmt.Sprint("p", i))
	}
	g.Expect(reader.Announce(t.Context(), many, nil)).To(Succeed())
	g.Expect(reader.Announced(t.Context())).To(HaveLen(len(many) + 2))
	g.Expect(reader.Announce(t.Context(), nil, many)).To(Succeed())
	g.Expect(reader.Announced(t.Context())).To(ConsistOf(y, z))
}

// What another program has written into the sets is ignored.
func TestForeignMembersAreIgnored(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	reader := NewReader(client, "weir:")
	g.Expect(denialSet.add(t.Context(), client, "weir:", []any{"a", "a/x u more", "a/x u"})).To(Succeed())
	g.Expect(announcedSet.add(t.Context(), client, "weir:", []any{"a", "a/x u more", "a/x u"})).To(Succeed())
	g.Expect(reader.Denials(t.Context())).To(HaveLen(1))
	g.Expect(reader.Announced(t.Context())).To(Equal([]plan.Identity{{ID: "a/x", UID: "u"}}))
}

func TestDenialsReportErrors(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	reader := NewReader(connect(t, server.URL), "weir:")
	server.Stop()
	_, err := reader.Denials(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("read which policies deny requests")))
	_, err = reader.Announced(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("read which denials were announced")))
	g.Expect(reader.Announce(t.Context(), []plan.Identity{identityOf("x")}, nil)).NotTo(Succeed())
	g.Expect(reader.Announce(t.Context(), nil, []plan.Identity{identityOf("x")})).NotTo(Succeed())
}

func BenchmarkMarkDenial(b *testing.B) {
	s := NewSightings(planOf("x"))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.MarkDenial()
		}
	})
}
