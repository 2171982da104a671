// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var start = time.Unix(1_700_000_000, 0)

var testSeed = maphash.MakeSeed()

func textOf(key string) *keyText {
	return &keyText{text: []byte(key), length: len(key), hash: maphash.String(testSeed, key)}
}

// stream is a stream of keys with its exact counts.
type stream struct {
	exact map[string]int64
	total int64
}

// feed adds n denials of skewed keys to the summaries, in the streams of several replicas.
func feed(r *rand.Rand, n, distinct int, to ...*summaries) *stream {
	s := &stream{exact: map[string]int64{}}
	zipf := rand.NewZipf(r, 1.1, 1, uint64(distinct-1))
	for range n {
		key, count := fmt.Sprintf("user-%d", zipf.Uint64()), int64(1+r.IntN(3))
		to[r.IntN(len(to))].add("shop/login", textOf(key), count)
		s.exact[key] += count
		s.total += count
	}
	return s
}

// expectBounds expects that the true count of every key lies within the bounds of the list.
func (s *stream) expectBounds(g Gomega, keys []keyPart, unlisted int64) {
	listed := map[string]bool{}
	for _, k := range keys {
		listed[k.Key] = true
		g.Expect(s.exact[k.Key]).To(And(BeNumerically("<=", k.Count), BeNumerically(">=", k.Count-k.Error)), k.Key)
	}
	for key, exact := range s.exact {
		if !listed[key] {
			g.Expect(exact).To(BeNumerically("<=", unlisted), key)
		}
	}
}

// The bounds of every key hold against exact counts, in one summary and after the merge of several
// replicas and periods. The error is at most the share of one place in each summary.
func TestCountsLieWithinTheirBounds(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			g, r := NewWithT(t), rand.New(rand.NewPCG(seed, 1))
			replicas := make([]*summaries, 1+seed%4)
			for i := range replicas {
				replicas[i] = newSummaries(start)
			}
			s := feed(r, 3000, 10+r.IntN(2000), replicas...)
			if seed%2 == 1 { // in two periods
				for _, replica := range replicas {
					replica.rotate(start.Add(summaryPeriod))
				}
				second := feed(r, 3000, 500, replicas...)
				for key, n := range second.exact {
					s.exact[key] += n
				}
				s.total += second.total
			}
			var lists []keyList
			for _, replica := range replicas {
				p := replica.policies["shop/login"]
				keys, unlisted := mergeKeys(p[0].list(), p[1].list())
				lists = append(lists, keyList{keys: keys, unlisted: unlisted})
			}
			keys, unlisted := mergeKeys(lists...)
			g.Expect(keys).NotTo(BeEmpty())
			g.Expect(len(keys)).To(BeNumerically("<=", summarySize))
			s.expectBounds(g, keys, unlisted)
			if len(replicas) == 1 && seed%2 == 0 {
				g.Expect(unlisted).To(BeNumerically("<=", s.total/summarySize))
			}
		})
	}
}

// With at most summarySize keys, all counts are exact.
func TestFewKeysAreExact(t *testing.T) {
	g := NewWithT(t)
	s := newSummaries(start)
	exact := feed(rand.New(rand.NewPCG(1, 2)), 5000, summarySize, s).exact
	keys, unlisted := mergeKeys(s.policies["shop/login"][0].list())
	g.Expect(unlisted).To(BeZero())
	g.Expect(keys).To(HaveLen(len(exact)))
	for _, k := range keys {
		g.Expect([]int64{k.Count, k.Error}).To(Equal([]int64{exact[k.Key], 0}))
	}
}

func TestCountsEndAfterTwoPeriods(t *testing.T) {
	g := NewWithT(t)
	s := newSummaries(start)
	s.add("shop/login", textOf("alice"), 3)
	s.rotate(start.Add(summaryPeriod - 1))
	g.Expect(s.policies["shop/login"][0].total).To(Equal(int64(3)))
	s.rotate(start.Add(summaryPeriod))
	keys, _ := mergeKeys(s.policies["shop/login"][0].list(), s.policies["shop/login"][1].list())
	g.Expect(keys).To(Equal([]keyPart{{Key: "alice", Length: 5, Count: 3}}))
	g.Expect(s.since()).To(Equal(start))
	s.rotate(start.Add(2 * summaryPeriod))
	g.Expect(s.policies).To(BeEmpty())
	g.Expect(s.extra).To(BeZero())
}

// Hostile keys, of the greatest length, in more policies than there is room for, take less than 16 MiB.
func TestSummariesAreBounded(t *testing.T) {
	g := NewWithT(t)
	before := heap()
	s := newSummaries(start)
	for _, period := range []time.Duration{0, summaryPeriod} {
		s.rotate(start.Add(period))
		for p := range maxPolicies + 10 {
			for k := range summarySize + 3 {
				kept := s.add(fmt.Sprintf("shop/policy-%d", p), textOf(fmt.Sprintf("%d-%d-", p, k)+strings.Repeat("%1B", 2000)), 1)
				g.Expect(kept == nil).To(Equal(p >= maxPolicies))
			}
		}
	}
	used := heap() - before
	runtime.KeepAlive(s)
	g.Expect(used).To(BeNumerically("<=", 16<<20), "%d KiB", used>>10)
	g.Expect(s.policies).To(HaveLen(maxPolicies))
	g.Expect(s.extra).To(BeNumerically("<=", maxExtraBytes))
	extra := 0
	for _, p := range s.policies {
		for i := range p {
			for j := range p[i].keys {
				extra += extraOf(p[i].keys[j].key)
			}
		}
	}
	g.Expect(s.extra).To(Equal(extra))
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Keys that are cut are still different keys.
func TestCutKeysAreCountedSeparately(t *testing.T) {
	g := NewWithT(t)
	s := newSummaries(start)
	s.extra = maxExtraBytes
	a, b := strings.Repeat("x", 500)+"a", strings.Repeat("x", 500)+"b"
	for range 3 {
		s.add("shop/login", textOf(a), 1)
	}
	s.add("shop/login", textOf(b), 1)
	keys := s.policies["shop/login"][0].keys
	g.Expect(keys).To(HaveLen(2))
	g.Expect([]int64{keys[0].count, keys[1].count}).To(Equal([]int64{3, 1}))
	g.Expect(keys[0].cut()).To(BeTrue())
	g.Expect(keys[0].key).To(HaveLen(inlineBytes))
}
