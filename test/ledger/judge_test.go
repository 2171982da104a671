// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	// maxEncoded is the most encoded bytes of an instance.
	maxEncoded = 256 << 10
	// maxRatio is the most that a cost may grow while the encoded size doubles.
	maxRatio = 2.5
	// leastShape is a small number of a shape. With 1 nothing is shared, so some costs do not arise.
	leastShape = 4
)

// dimension is one of the numbers that determine an instance.
type dimension struct {
	name string
	// of is the dimension that counts what each has this number, "" for none.
	of string
	// first is the number in the smallest instance, most is the largest one that Weir accepts; 0 is any.
	first, most int
	// shape is set if the number divides what others count, such as how many objects share a value. It is not doubled with the
	// others: the instance costs as much for any number.
	shape bool
}

// verdict is the worst of one measure of a row.
type verdict struct {
	ratio float64
	at    string
}

// judge measures instances with the numbers of vectors, and returns the worst ratio of each measure: how much a cost grows
// while the encoded size doubles.
//
//   - One dimension is doubled by itself. The encoded size then grows at most twofold, so the cost may grow as much as if it
//     had doubled.
//   - Two dimensions are doubled together of which none counts what the other one has: then they should add.
//   - All dimensions are doubled together. The encoded size may grow much more, so the cost of a byte is compared.
//   - A dimension that is a shape is compared with leastShape.
type judge struct {
	dimensions []dimension
	// mostEncoded is the most encoded bytes of an instance.
	mostEncoded int
	encoded     func(sizes []int) int
	measure     func(sizes []int) *measured
	measures    []measure // that must not be products
	worst       map[measure]verdict
}

// judgeFrom judges with about these proportions, which order varies: all dimensions together, from the largest instance whose
// double is small enough, and each by itself, from the largest instance.
func (j *judge) judgeFrom(sizes []int, order *rand.Rand) {
	base := j.halved(sizes)
	for j.encoded(j.doubled(base)) > j.mostEncoded {
		base = j.halved(base)
	}
	base = j.grown(base, order, func(n []int) bool {
		return slices.Equal(n, j.halved(j.doubled(n))) && j.encoded(j.doubled(n)) <= j.mostEncoded
	})
	small := j.measure(base)
	j.compare(small, j.measure(j.doubled(base)), fmt.Sprintf("all from %v", base), 0)
	j.judgeEach(base, small)
	j.judgePairs(base, small)
	for i := range sizes {
		sizes[i] = max(sizes[i], base[i])
	}
	for j.encoded(sizes) > j.mostEncoded/2 {
		sizes = j.halved(sizes)
	}
	largest := j.grown(sizes, order, func(n []int) bool { return j.encoded(n) <= j.mostEncoded/2 })
	j.judgeEach(largest, j.measure(largest))
}

// judgeEach doubles each dimension by itself.
func (j *judge) judgeEach(sizes []int, small *measured) {
	for i, d := range j.dimensions {
		large := slices.Clone(sizes)
		if !d.shape {
			if large[i] = d.double(sizes[i]); large[i] > sizes[i] {
				j.compare(small, j.measure(large), fmt.Sprintf("%s from %v", d.name, sizes), 2)
			}
			continue
		}
		large[i] = leastShape
		least := j.measure(large)
		for n := 4 * leastShape; n <= d.most; n *= 4 {
			large[i] = n
			j.compare(least, j.measure(large), fmt.Sprintf("%s %d to %d in %v", d.name, leastShape, n, sizes), 2)
		}
	}
}

// judgePairs doubles two dimensions at a time.
func (j *judge) judgePairs(sizes []int, small *measured) {
	for i, a := range j.dimensions {
		for k, b := range j.dimensions[:i] {
			if a.shape || b.shape || j.isOf(a, b) || j.isOf(b, a) {
				continue
			}
			large := slices.Clone(sizes)
			large[i], large[k] = a.double(sizes[i]), b.double(sizes[k])
			j.compare(small, j.measure(large), fmt.Sprintf("%s and %s from %v", b.name, a.name, sizes), 2)
		}
	}
}

// isOf reports whether the dimension counts what the other one, or what that one counts, has.
func (j *judge) isOf(d, other dimension) bool {
	for d.of != "" && d.of != other.name {
		d = j.dimensions[slices.IndexFunc(j.dimensions, func(parent dimension) bool { return parent.name == d.of })]
	}
	return d.of != ""
}

// grown doubles one dimension after the other, in any order, as long as the sizes fit.
func (j *judge) grown(sizes []int, order *rand.Rand, fit func(sizes []int) bool) []int {
	for grew := true; grew; {
		grew = false
		for _, i := range order.Perm(len(j.dimensions)) {
			larger := slices.Clone(sizes)
			if d := j.dimensions[i]; !d.shape {
				larger[i] = d.double(sizes[i])
			}
			if larger[i] > sizes[i] && fit(larger) && j.encoded(larger) > j.encoded(sizes) {
				sizes, grew = larger, true
			}
		}
	}
	return sizes
}

// attempts is how often two instances are measured before one of them costs too much.
const attempts = 4

// compare notes how much the costs grow. least is the least growth of the encoded size that it is compared with.
func (j *judge) compare(small, large *measured, at string, least float64) {
	growth := max(least, float64(large.encoded)/float64(small.encoded))
	ratio := func(m measure) float64 {
		// Below the noise there is nothing to compare.
		return 2 * max(large.costs[m], m.noise()) / max(small.costs[m], m.noise()) / growth
	}
	isProduct := func(m measure) bool { return ratio(m) > maxRatio }
	for n := 1; n < attempts && slices.ContainsFunc(j.measures, isProduct); n++ {
		small.again()
		large.again()
	}
	for m := range large.costs {
		if v := ratio(m); v > j.worst[m].ratio {
			j.worst[m] = verdict{v, at}
		}
	}
}

func (j *judge) doubled(sizes []int) []int { return j.each(sizes, dimension.double) }

// halved returns sizes that can be doubled.
func (j *judge) halved(sizes []int) []int {
	return j.each(sizes, func(_ dimension, n int) int { return max(1, n/2) })
}

// each returns the sizes without the shapes changed.
func (j *judge) each(sizes []int, change func(d dimension, n int) int) []int {
	changed := slices.Clone(sizes)
	for i, d := range j.dimensions {
		if !d.shape {
			changed[i] = change(d, sizes[i])
		}
	}
	return changed
}

func (d dimension) double(n int) int {
	if d.most > 0 {
		return min(2*n, d.most)
	}
	return 2 * n
}

// random returns sizes for small instances in random proportions.
func random(dimensions []dimension, r *rand.Rand) (sizes []int) {
	for _, d := range dimensions {
		n := d.first
		if d.shape {
			n = 1 + r.IntN(d.most)
		} else {
			n <<= r.IntN(3)
		}
		if d.most > 0 {
			n = min(n, d.most)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

// The judge sees products, also beside a large sum, and takes no sum for one.
func TestTheJudgeSeesProducts(t *testing.T) {
	plain := []dimension{{name: "n", first: 4}, {name: "m", first: 4}}
	nested := []dimension{{name: "objects", first: 2}, {name: "hosts", of: "objects", first: 2, most: 32}, {name: "paths", of: "objects", first: 2, most: 32}}
	shared := []dimension{{name: "n", first: 64}, {name: "sharing", most: 64, shape: true}}
	for name, tc := range map[string]struct {
		dimensions    []dimension
		encoded, cost func(n []int) int
		isProduct     bool
	}{
		"a sum":                        {plain, func(n []int) int { return 10 * (n[0] + n[1]) }, func(n []int) int { return 50*n[0] + 700*n[1] }, false},
		"a constant":                   {plain, func(n []int) int { return 10 * (n[0] + n[1]) }, func([]int) int { return 1 << 30 }, false},
		"n log n":                      {plain, func(n []int) int { return 10 * (n[0] + n[1]) }, func(n []int) int { return n[0] * 16 * len(fmt.Sprintf("%b", n[0])) }, false},
		"n x m":                        {plain, func(n []int) int { return 10 * (n[0] + n[1]) }, func(n []int) int { return n[0] * n[1] }, true},
		"n x m beside a sum":           {plain, func(n []int) int { return 10 * (n[0] + n[1]) }, func(n []int) int { return n[0]*n[1] + 1000*n[0] }, true},
		"n x n":                        {plain, func(n []int) int { return 10 * (n[0] + n[1]) }, func(n []int) int { return n[0] * n[0] }, true},
		"what the encoding has":        {nested, func(n []int) int { return 20 * n[0] * (n[1] + n[2]) }, func(n []int) int { return 300 * n[0] * (n[1] + n[2]) }, false},
		"hosts x paths of an object":   {nested, func(n []int) int { return 20 * n[0] * (n[1] + n[2]) }, func(n []int) int { return 20 * n[0] * n[1] * n[2] }, true},
		"a product beside a large sum": {nested, func(n []int) int { return n[0] * (20*n[1] + 2*n[2]) }, func(n []int) int { return n[0] * (10*n[1] + 10*n[2] + 3*n[1]*n[2]) }, true},
		"copies of what is shared":     {shared, func(n []int) int { return 20 * n[0] }, func(n []int) int { return 100 * n[0] * n[1] }, true},
		"what is shared once":          {shared, func(n []int) int { return 20 * n[0] }, func(n []int) int { return 1000 * n[0] / n[1] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			worst := 0.0
			for seed := range uint64(4) {
				j := judge{dimensions: tc.dimensions, mostEncoded: maxEncoded, measures: measures, worst: map[measure]verdict{}, encoded: tc.encoded, measure: func(n []int) *measured {
					return &measured{tc.encoded(n), map[measure]float64{steps: float64(tc.cost(n))}, func() {}}
				}}
				order := rand.New(rand.NewPCG(seed, 44))
				j.judgeFrom(random(tc.dimensions, order), order)
				worst = max(worst, j.worst[steps].ratio)
			}
			t.Logf("%.2f", worst)
			g.Expect(worst > maxRatio).To(Equal(tc.isProduct))
		})
	}
}
