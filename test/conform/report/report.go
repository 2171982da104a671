// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report writes the results of the suite.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/conform/scenario"
	"github.com/weir-dev/weir/test/conform/system"
)

// Report is the results of scenarios on systems.
type Report struct {
	Scenarios []*scenario.Scenario
	Systems   []system.System
	results   []*scenario.Result
}

// Add adds a result.
func (r *Report) Add(result *scenario.Result) { r.results = append(r.results, result) }

// Line returns a result in one line.
func Line(r *scenario.Result, violation string) string {
	if r.Unsupported != "" {
		return fmt.Sprintf("%-22s %-18s not run: %s", r.System, r.Scenario, r.Unsupported)
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%-22s %-18s over %d, documented %d; under %d; admitted %d, denied %d, failed %d; p50 %s, p99 %s",
		r.System, r.Scenario, r.Over, r.OverDocumented, r.Under, r.Counts.Admitted, r.Counts.Denied, r.Counts.Failed, millis(r.P50), millis(r.P99))
	for _, f := range r.Figures {
		line.WriteString("; " + f.Name + " " + f.Value)
	}
	if violation != "" {
		line.WriteString("\n" + strings.Repeat(" ", 41) + "VIOLATION: " + violation)
	}
	return line.String()
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// Write writes the tables and the results in JSON; an empty path writes none.
func (r *Report) Write(markdown, jsonPath string) error {
	if markdown != "" {
		if err := os.WriteFile(markdown, []byte(r.Markdown()), 0o600); err != nil {
			return err
		}
	}
	if jsonPath == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(jsonPath, append(text, '\n'), 0o600)
}

// Markdown returns the tables of the results.
func (r *Report) Markdown() string {
	var text strings.Builder
	r.table(&text, "How many units they wrongly admit or deny", func(result *scenario.Result) string {
		cell := strconv.FormatInt(result.Over, 10)
		if result.OverDocumented < result.Over {
			cell += fmt.Sprintf(" (%d)", result.OverDocumented)
		}
		return cell + fmt.Sprintf(" / %d", result.Under)
	})
	r.table(&text, "Time of a call, p50 and p99", func(result *scenario.Result) string {
		return millis(result.P50) + ", " + millis(result.P99)
	})
	r.table(&text, "Speed, memory and recovery", func(result *scenario.Result) string {
		var figures []string
		if result.Counts.Failed > 0 {
			figures = append(figures, fmt.Sprintf("%d calls failed", result.Counts.Failed))
		}
		for _, f := range result.Figures {
			figures = append(figures, f.Name+": "+f.Value)
		}
		return strings.Join(figures, "; ")
	})
	for _, s := range r.Systems {
		d := s.Description()
		fmt.Fprintf(&text, "- %s %s", s.Name(), d.Version)
		if len(d.Settings) > 0 {
			fmt.Fprintf(&text, ": %s", strings.Join(d.Settings, ", "))
		}
		text.WriteString("\n")
	}
	return text.String()
}

func (r *Report) table(text *strings.Builder, title string, cell func(*scenario.Result) string) {
	fmt.Fprintf(text, "### %s\n\n| |", title)
	for _, s := range r.Systems {
		fmt.Fprintf(text, " %s |", s.Name())
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(r.Systems)) + "\n")
	for _, s := range r.Scenarios {
		fmt.Fprintf(text, "| %s |", s.Question)
		for _, on := range r.Systems {
			fmt.Fprintf(text, " %s |", r.cell(s.Name, on.Name(), cell))
		}
		text.WriteString("\n")
	}
	text.WriteString("\n")
}

func (r *Report) cell(scenarioName, systemName string, cell func(*scenario.Result) string) string {
	for _, result := range r.results {
		if result.Scenario == scenarioName && result.System == systemName {
			if result.Unsupported != "" {
				return "-"
			}
			return cell(result)
		}
	}
	return "-"
}
