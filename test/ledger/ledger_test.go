// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// row is a row of the ledger.
type row struct {
	dimensions []dimension
	// attacks are the numbers of instances that were once too expensive. They are judged before the random ones.
	attacks [][]int
	// build makes the instance with these numbers, in the order of dimensions.
	build func(tb testing.TB, n []int) instance
	// usesRedis is set if build needs a server.
	usesRedis bool
	// mostEncoded is the largest size in bytes that Weir reads, if it is less than maxEncoded; 0 is maxEncoded.
	mostEncoded int
}

// rows are all rows, by the first cell of the page.
func rows() map[string]row {
	all := map[string]row{}
	for _, of := range []map[string]row{policyRows, reviewRows, groupRows, gatewayRows, expressionRows, requestRows} {
		maps.Copy(all, of)
	}
	return all
}

// bound is a cell of the table: the most of a measure.
type bound struct {
	ofByte, total float64
	// isCapped is set if the cost is a product of numbers that other bounds keep small.
	isCapped bool
}

// fixed is what an instance of any size may cost of a measure beside the bound for each byte.
func (m measure) fixed() float64 {
	switch m {
	case heap, garbage:
		return 128 << 10
	case redisBytes:
		return 4 << 10
	default:
		return 256
	}
}

// ledger returns the bounds of docs/security.md by row and measure. A cell is a number for each byte, perhaps with "+" and a total,
// and with "capped" behind it, or empty.
func ledger(tb testing.TB) map[string]map[measure]bound {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.ModuleRoot(tb), "docs", "security.md"))
	if err != nil {
		tb.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Ledger\n")
	if !found {
		tb.Fatal("docs/security.md has no section Ledger")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	bounds := map[string]map[measure]bound{}
	var columns []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(cells[0], "---"):
		case columns == nil:
			columns = cells
		default:
			bounds[cells[0]] = boundsOf(tb, columns, cells)
		}
	}
	return bounds
}

func boundsOf(tb testing.TB, columns, cells []string) map[measure]bound {
	tb.Helper()
	bounds := map[measure]bound{}
	for i, column := range columns {
		if cells[i] == "" || !slices.Contains(measures, measure(column)) {
			continue
		}
		var b bound
		var text string
		text, b.isCapped = strings.CutSuffix(cells[i], ", capped")
		ofByte, total, _ := strings.Cut(text, " + ")
		b.ofByte, b.total = number(tb, ofByte), number(tb, cmp.Or(total, "0"))
		bounds[measure(column)] = b
	}
	return bounds
}

func number(tb testing.TB, text string) float64 {
	tb.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// randomSeeds is how many random proportions of each row are judged.
const randomSeeds = 3

// Each row of the page holds: no instance costs more than the row has, and twice as much of anything costs at most 2.5 times
// as much.
func TestLedger(t *testing.T) {
	bounds, all := ledger(t), rows()
	NewWithT(t).Expect(slices.Sorted(maps.Keys(all))).To(Equal(slices.Sorted(maps.Keys(bounds))), "rows of docs/security.md and tests")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { judgeRow(t, all[name], bounds[name]) })
	}
}

func judgeRow(t *testing.T, r row, bounds map[measure]bound) {
	t.Helper()
	var server *redisServer
	if r.usesRedis {
		server = startRedis(t)
	}
	most := map[measure]float64{} // for each byte, beyond the fixed part
	j := judge{
		dimensions: r.dimensions, mostEncoded: cmp.Or(r.mostEncoded, maxEncoded), worst: map[measure]verdict{},
		encoded: func(n []int) int { return r.build(t, n).encoded },
		measure: func(n []int) *measured {
			m := measureOf(t, r.build(t, n), server)
			for attempt := 1; attempt < attempts && len(beyond(bounds, m)) > 0; attempt++ {
				m.again()
			}
			for _, text := range beyond(bounds, m) {
				t.Errorf("%v: %s", n, text)
			}
			for what, cost := range m.costs {
				most[what] = max(most[what], (cost-what.fixed())/float64(m.encoded))
			}
			return m
		},
	}
	for _, m := range measures {
		if b, found := bounds[m]; found && !b.isCapped {
			j.measures = append(j.measures, m)
		}
	}
	for _, sizes := range r.attacks {
		j.judgeFrom(slices.Clone(sizes), rand.New(rand.NewPCG(0, 0)))
	}
	for seed := range seeds.InMemory(randomSeeds) {
		order := rand.New(rand.NewPCG(seed, 44))
		j.judgeFrom(random(r.dimensions, order), order)
	}
	report(t, &j, bounds, most)
}

// beyond returns what the instance costs beyond the bounds.
func beyond(bounds map[measure]bound, m *measured) (all []string) {
	for what, b := range bounds {
		if most := b.ofByte*float64(m.encoded) + max(b.total, what.fixed()); m.costs[what] > most {
			all = append(all, fmt.Sprintf("%s of %d bytes is %.0f, more than %.0f", what, m.encoded, m.costs[what], most))
		}
	}
	return all
}

// report logs the worst ratios and the most that a byte costs, and fails for each measure that is a product.
func report(t *testing.T, j *judge, bounds map[measure]bound, most map[measure]float64) {
	t.Helper()
	worst := verdict{}
	for _, m := range measures {
		v, found := j.worst[m]
		b, isBounded := bounds[m]
		if found != isBounded {
			t.Errorf("%s: measured %t, on the page %t", m, found, isBounded)
		}
		if !found {
			continue
		}
		capped := ""
		if b.isCapped {
			capped = ", capped"
		}
		t.Logf("%s: ratio %.2f%s (%s), at most %.2f a byte", m, v.ratio, capped, v.at, most[m])
		switch {
		case b.isCapped:
			continue
		case v.ratio > maxRatio:
			t.Errorf("%s: %.2f times as much for twice the size: %s", m, v.ratio, v.at)
		}
		if v.ratio > worst.ratio {
			worst = verdict{v.ratio, fmt.Sprintf("%s, %s", m, v.at)}
		}
	}
	t.Logf("worst ratio %.2f (%s)", worst.ratio, worst.at)
}
