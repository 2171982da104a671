// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/reference"
)

var update = flag.Bool("update", false, "rewrite the picture in docs/algorithms.md")

// pictureTraffic is the number of checks in each second of the picture.
const pictureTraffic = "1111111111     666          222222222222222222222222222222"

// pictureLimits admit 10 per 10 s, one for each algorithm.
var pictureLimits = []struct {
	name  string
	limit store.Limit
}{
	{"FixedWindow", store.Limit{Algorithm: store.FixedWindow}},
	{"SlidingLog", store.Limit{Algorithm: store.SlidingLog}},
	{"SlidingWindow", store.Limit{Algorithm: store.SlidingWindow, Bucket: 2 * time.Second}},
	{"TokenBucket", store.Limit{Algorithm: store.TokenBucket}},
	{"GCRA", store.Limit{Algorithm: store.GCRA, Quota: 1}},
	{"Suppressed", store.Limit{Algorithm: store.Suppressed, HardQuota: 15, Bucket: time.Second / 6}},
}

// The picture in docs/algorithms.md shows the decisions of the model.
func TestGoldenPicture(t *testing.T) {
	g := NewWithT(t)
	const page = "../../docs/algorithms.md"
	const begin, end = "```picture\n", "```\n"
	text, err := os.ReadFile(page)
	g.Expect(err).NotTo(HaveOccurred())
	before, rest, found := strings.Cut(string(text), begin)
	g.Expect(found).To(BeTrue(), "the page has a picture")
	shown, after, _ := strings.Cut(rest, end)
	drawn := drawPicture()
	if *update {
		g.Expect(os.WriteFile(page, []byte(before+begin+drawn+end+after), 0o644)).To(Succeed())
		return
	}
	g.Expect(shown).To(Equal(drawn))
}

func drawPicture() string {
	var b strings.Builder
	var ruler strings.Builder
	for i := 0; i < len(pictureTraffic); i += 10 {
		fmt.Fprintf(&ruler, "%-10d", i)
	}
	fmt.Fprintf(&b, "%-13s  %s\n", "second", strings.TrimRight(ruler.String(), " "))
	fmt.Fprintf(&b, "%-13s  %s\n", "offered", pictureTraffic)
	for _, p := range pictureLimits {
		fmt.Fprintf(&b, "%-13s  %s\n", p.name, strings.TrimRight(drawRow(p.limit), " "))
	}
	return b.String()
}

// drawRow returns the number of admitted checks in each second, and a dot for 0.
func drawRow(l store.Limit) string {
	l.Name, l.Threshold, l.Window = "l", 10, 10*time.Second
	if l.Quota == 0 {
		l.Quota = l.Threshold
	}
	policy := store.NewPolicy("docs/picture", false, false, []store.Limit{l})
	model, r := &reference.Model{}, rand.New(rand.NewPCG(7, 7))
	start := time.Unix(1_900_000_000, 0)
	row := make([]byte, len(pictureTraffic))
	for second, offered := range []byte(pictureTraffic) {
		if row[second] = ' '; offered == ' ' {
			continue
		}
		passed, checks := 0, int(offered-'0')
		for i := range checks {
			at := start.Add(time.Duration(second)*time.Second + time.Duration(i)*time.Second/time.Duration(checks))
			reply := model.Evaluate(&store.Call{Draw: r.Uint32(), Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}}, at)
			if reply.Entries[0].Verdict == store.Admitted {
				passed++
			}
		}
		if row[second] = '.'; passed > 0 {
			row[second] = byte('0' + passed)
		}
	}
	return string(row)
}
