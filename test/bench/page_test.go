// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The markers around the sections of performance.md that BenchmarkCompare writes.
const (
	pageStart = "<!-- bench-compare -->\n"
	pageEnd   = "<!-- /bench-compare -->"
)

var errPage = errors.New("performance.md")

// page is performance.md.
type page struct {
	before, after string            // with the markers
	sections      map[string]string // by title, with the heading
}

func parsePage(text string) (*page, error) {
	before, rest, found := strings.Cut(text, pageStart)
	measured, after, closed := strings.Cut(rest, pageEnd)
	if !found || !closed {
		return nil, fmt.Errorf("%w: no markers %q and %q", errPage, pageStart, pageEnd)
	}
	p := &page{before: before + pageStart, after: pageEnd + after, sections: map[string]string{}}
	for i, text := range strings.Split("\n"+measured, "\n### ") {
		if i > 0 {
			title, _, _ := strings.Cut(text, "\n")
			p.sections[title] = "### " + strings.TrimRight(text, "\n") + "\n"
		}
	}
	return p, nil
}

// String returns the page with its sections in the order of the parts.
func (p *page) String() string {
	var text strings.Builder
	text.WriteString(p.before)
	for _, part := range parts {
		if section := p.sections[part.title]; section != "" {
			text.WriteString(section + "\n")
		}
	}
	text.WriteString(p.after)
	return text.String()
}

// share returns the median share of the first row that the page documents for a row of the
// table with the caption.
func (p *page) share(title, caption, row string) (float64, error) {
	_, table, found := strings.Cut(p.sections[title], "\n"+caption+"\n")
	if !found {
		return 0, fmt.Errorf("%w: section %q has no table %q", errPage, title, caption)
	}
	table, _, _ = strings.Cut(strings.TrimLeft(table, "\n"), "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.TrimSpace(cells[1]) != row {
			continue
		}
		fields := strings.Fields(cells[2])
		if len(fields) == 0 {
			break
		}
		share, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || share <= 0 {
			return 0, fmt.Errorf("%w: share %q of row %q of table %q", errPage, fields[0], row, caption)
		}
		return share, nil
	}
	return 0, fmt.Errorf("%w: table %q has no share of %q", errPage, caption, row)
}

// updatePage replaces the section in performance.md, if the page has it.
func updatePage(tb testing.TB, folder string, s *section) {
	tb.Helper()
	g := NewWithT(tb)
	path := filepath.Join(folder, "performance.md")
	text, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	p, err := parsePage(string(text))
	g.Expect(err).NotTo(HaveOccurred())
	if p.sections[s.title] == "" {
		return
	}
	p.sections[s.title] = s.text.String()
	g.Expect(os.WriteFile(path, []byte(p.String()), 0o600)).To(Succeed())
}

const samplePage = `# Performance

<!-- bench-compare -->
### Redis Cluster

Measured.

### gRPC ShouldRateLimit

Measured.

10,000 keys, allowed, callers: 64

| target | share of the first | calls/s |
|---|---|---|
| no-op, default options | 1.00 (1.00 to 1.00) | 87095 |
| Weir | 0.55 (0.52 to 0.69) | 48028 |

one key, denied, callers: 64

| target | share of the first | calls/s |
|---|---|---|
| no-op, default options | 1.00 (1.00 to 1.00) | 87095 |
| Weir | fast | 48028 |

<!-- /bench-compare -->

The end.
`

func TestPageReplacesOneSection(t *testing.T) {
	g := NewWithT(t)
	p, err := parsePage(samplePage)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.sections).To(HaveLen(2))
	p.sections["Redis Cluster"] = "### Redis Cluster\n\nNew.\n"
	text := p.String()
	g.Expect(text).To(HavePrefix("# Performance\n\n<!-- bench-compare -->\n### gRPC ShouldRateLimit\n\nMeasured.\n"), "in the order of the parts")
	g.Expect(text).To(HaveSuffix("48028 |\n\n### Redis Cluster\n\nNew.\n\n<!-- /bench-compare -->\n\nThe end.\n"))
	again, err := parsePage(text)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.String()).To(Equal(text))
}

func TestPageWithoutMarkers(t *testing.T) {
	_, err := parsePage("# Performance\n")
	NewWithT(t).Expect(err).To(MatchError(errPage))
}
