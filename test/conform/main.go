// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/weir-dev/weir/test/conform/report"
	"github.com/weir-dev/weir/test/conform/scenario"
	"github.com/weir-dev/weir/test/conform/system"
)

const usage = `Conform asks rate limiters what they admit, and judges the answers.

Without the path of a program, it builds and asks Weir. It needs redis-server and a
C compiler. It exits with 1 if a system admits more units than a quota, or denies a
request though there is room and nothing is broken.

Usage:
  go run ./test/conform [flags]

Flags:
`

// errViolations is the end of a run that found violations.
var errViolations = errors.New("there are violations")

type options struct {
	programs           system.Programs
	scenarios, systems *regexp.Regexp
	settings           scenario.Settings
	reportOnly, list   bool
	markdown, jsonPath string
	overlay            string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := conform(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "conform:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("conform", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = io.WriteString(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.programs.Weir, "weir", os.Getenv("WEIR_BIN"), "program of Weir, or none (default: builds it, with -overlay)")
	flags.StringVar(&o.programs.Ratelimit, "ratelimit", os.Getenv("RATELIMIT_BIN"), "program of envoyproxy/ratelimit (default: not asked)")
	flags.StringVar(&o.programs.Gubernator, "gubernator", os.Getenv("GUBERNATOR_BIN"), "program of gubernator (default: not asked)")
	flags.StringVar(&o.programs.Limitador, "limitador", os.Getenv("LIMITADOR_BIN"), "program of Limitador, limitador-server (default: not asked)")
	scenarios := flags.String("scenarios", ".*", "regular expression for the names of scenarios")
	systems := flags.String("systems", ".*", "regular expression for the names of systems")
	flags.IntVar(&o.settings.Keys, "keys", 100_000, "keys of the scenario many-keys")
	flags.IntVar(&o.settings.Rounds, "rounds", 3, "rounds of scenarios whose outcome depends on time; seconds of loads")
	flags.BoolVar(&o.reportOnly, "report-only", false, "exit with 0 also if there are violations")
	flags.BoolVar(&o.list, "list", false, "print the names of scenarios and systems, and end")
	flags.StringVar(&o.markdown, "markdown", "", "file for the tables of the results (default: none)")
	flags.StringVar(&o.jsonPath, "json", "", "file for the results in JSON (default: none)")
	flags.StringVar(&o.overlay, "overlay", "", "write into this folder what `go build -overlay FOLDER/overlay.json` needs for a program whose clock the scenario clocks can move, and end")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if o.settings.Keys < 1 || o.settings.Rounds < 1 {
		return nil, errors.New("--keys and --rounds must be at least 1")
	}
	var err error
	if o.scenarios, err = regexp.Compile("^(" + *scenarios + ")$"); err != nil {
		return nil, fmt.Errorf("--scenarios: %w", err)
	}
	if o.systems, err = regexp.Compile("^(" + *systems + ")$"); err != nil {
		return nil, fmt.Errorf("--systems: %w", err)
	}
	return o, nil
}

// conform is the program.
func conform(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.overlay != "" {
		_, err := system.Overlay(ctx, o.overlay)
		return err
	}
	remove, err := o.prepareWeir(ctx)
	if err != nil {
		return err
	}
	defer remove()
	systems, scenarios := o.selected()
	if len(systems) == 0 || len(scenarios) == 0 {
		return errors.New("no system or no scenario has such a name; --list prints them")
	}
	if o.list {
		for _, s := range scenarios {
			_, _ = fmt.Fprintf(out, "%-18s %s\n", s.Name, s.Question)
		}
		for _, s := range systems {
			_, _ = fmt.Fprintf(out, "%-18s %s\n", s.Name(), s.Description().Version)
		}
		return nil
	}
	return o.run(ctx, out, systems, scenarios)
}

// selected returns the systems and scenarios that the flags select.
func (o *options) selected() (systems []system.System, scenarios []*scenario.Scenario) {
	for _, s := range system.All(o.programs) {
		if o.systems.MatchString(s.Name()) {
			systems = append(systems, s)
		}
	}
	for _, s := range scenario.All() {
		if o.scenarios.MatchString(s.Name) {
			scenarios = append(scenarios, s)
		}
	}
	return systems, scenarios
}

// run runs each scenario on each system, prints and writes the results, and returns errViolations if there are any.
func (o *options) run(ctx context.Context, out io.Writer, systems []system.System, scenarios []*scenario.Scenario) error {
	results := &report.Report{Scenarios: scenarios, Systems: systems}
	violations := 0
	for _, s := range scenarios {
		for _, on := range systems {
			result, err := s.Run(ctx, on, o.settings)
			if err != nil {
				return err
			}
			results.Add(result)
			violation := s.Violation(result)
			if violation != "" {
				violations++
			}
			_, _ = fmt.Fprintln(out, report.Line(result, violation))
		}
	}
	if err := results.Write(o.markdown, o.jsonPath); err != nil {
		return err
	}
	if violations > 0 && !o.reportOnly {
		return fmt.Errorf("%w: %d", errViolations, violations)
	}
	return nil
}
