// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// page is the folder of the documentation into which the figures are written.
var page = flag.String("page", "", "folder of reliability.md, into which the figures are written")

// The table on the page is between these lines.
const (
	tableStart = "<!-- begin figures -->\n"
	tableEnd   = "<!-- end figures -->\n"
)

// results are the figures of the faults that ran, by name.
var results sync.Map

// runEach runs the faults, logs their results and keeps them for the page. It runs them one after the other if the figures are for
// the page, else as many at once as there are cores, because they mostly wait.
func runEach(t *testing.T, faults []fault) {
	t.Helper()
	for i := range faults {
		t.Run(faults[i].name, func(t *testing.T) {
			if *page == "" {
				t.Parallel()
			}
			r := faults[i].run(t)
			t.Log(r.row())
			results.Store(r.fault.name, r)
		})
	}
}

// row returns the result as a row of the table.
func (r *result) row() string {
	during, recovery := "-", "-"
	if r.during > 0 {
		during = milliseconds(r.during)
	}
	if r.degraded > 0 {
		recovery = milliseconds(max(0, r.recovery))
	}
	return fmt.Sprintf("| %s | %d | %d | %s | %s | %s | %d | %d | %d | %d |",
		r.fault.name, r.degraded, r.failed, milliseconds(r.before), during, recovery, r.over, r.under, r.sliced, r.unspent)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// allFaults are the faults in the order of the page.
func allFaults() []fault {
	return slices.Concat(singleFaults, failoverFaults, processFaults(), operatorFaults)
}

// The page lists every fault.
func TestPageListsEveryFault(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reliability.md"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range allFaults() {
		g.Expect(string(text)).To(ContainSubstring("| "+f.name+" |"), "make test-faults UPDATE=docs writes the page")
	}
}

// writePage writes the figures of all faults into the page.
func writePage(folder string) error {
	path := filepath.Join(folder, "reliability.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), tableStart)
	_, after, foundEnd := strings.Cut(rest, tableEnd)
	if !found || !foundEnd {
		return fmt.Errorf("%s has no lines %q and %q", path, tableStart, tableEnd)
	}
	var table strings.Builder
	table.WriteString("| fault | degraded answers | calls without an answer | p99 before | p99 after the first second | recovery | over-admitted | under-admitted | from slices | lost slices |\n")
	table.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range allFaults() {
		r, ok := results.Load(f.name)
		if !ok {
			return fmt.Errorf("%s did not run", f.name)
		}
		table.WriteString(r.(*result).row() + "\n")
	}
	return os.WriteFile(path, []byte(before+tableStart+table.String()+tableEnd+after), 0o600)
}

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	code := m.Run()
	if code == 0 && *page != "" {
		if err := writePage(*page); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
