// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/backtest"
	"github.com/weir-dev/weir/internal/reject"
)

// backtestMemory is the soft memory limit of a backtest, in bytes. Above it the garbage collector
// runs more often.
const backtestMemory = 960 << 20

type backtestFlags struct {
	policies  []string
	accessLog string
	format    string
	fields    []string
	host      string
	svg       string
	solve     string
	target    string
	output    Output
	namespace string
}

// NewBacktest returns the command backtest of the program.
func NewBacktest(program string) *cobra.Command {
	f := &backtestFlags{format: string(backtest.FormatCombined), target: "0.1%"}
	cmd := &cobra.Command{
		Use:   "backtest -f POLICY... --access-log FILE",
		Short: "Show what policies would have denied of an access log",
		Long: `Show what policies would have denied of an access log.

Decides each request of the log by the policies, as Weir would have at that time. Every
request costs 1. Policies without matches apply to all requests. Lines are put in order
within 30 s, and the lines of one second are spread evenly over it.

--map ATTRIBUTE=FIELD names the field of an attribute: method, host, path, remoteAddress,
principal, domain, time, date, status, request, header.NAME or descriptor.KEY. FIELD is a name
in JSON and a number in the other formats, from 1.

--solve LIMIT finds the smallest threshold of that limit with which the policies together
deny at most --target of the requests, all else as written.

Above 1.5 million keys it counts a sample of keys, by their hash, and reports this.

Exit codes: 0 success, 1 failure, such as invalid policies or a log without a needed
attribute, 2 invalid arguments.`,
		Example: fmt.Sprintf("  %s backtest -f login.yaml --access-log access.log --host shop.example\n"+
			"  %s backtest -f login.yaml --access-log access.log.gz --format json --map header.x-account=account\n"+
			"  %s backtest -f api.yaml --access-log - --solve hourly --target 0.1%% < access.log", program, program, program),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addNamespaceFlag(cmd, &f.namespace)
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.policies, "filename", "f", nil, "file or folder with policies; may be repeated (required)")
	flags.StringVar(&f.accessLog, "access-log", "", "access log, also compressed by gzip; - is standard input (required)")
	flags.StringVar(&f.format, "format", f.format, "format of the log: combined, json or envoy")
	flags.StringArrayVar(&f.fields, "map", nil, "field of an attribute, as ATTRIBUTE=FIELD; may be repeated")
	flags.StringVar(&f.host, "host", "", "host of all requests, for logs without it")
	flags.StringVar(&f.svg, "svg", "", "file for a drawing of admitted and denied requests over time")
	flags.StringVar(&f.solve, "solve", "", "limit whose smallest sufficient threshold to find: LIMIT or POLICY/LIMIT")
	flags.StringVar(&f.target, "target", f.target, "largest share of requests that --solve may deny")
	f.output.AddFlag(cmd)
	return usageErrors(cmd)
}

func (f *backtestFlags) run(cmd *cobra.Command) error {
	target, err := f.validate(cmd)
	if err != nil {
		return ExitWith(exitUsage, err)
	}
	source, err := f.source()
	if err != nil {
		return ExitWith(exitUsage, err)
	}
	policies, err := f.load(cmd)
	if err != nil {
		return err
	}
	if f.solve != "" && f.accessLog == "-" {
		remove, err := spool(cmd.InOrStdin(), &source)
		if err != nil {
			return ExitWith(exitFindings, err)
		}
		defer remove()
	} else if f.accessLog == "-" {
		source.Open = func() (io.ReadCloser, error) { return io.NopCloser(cmd.InOrStdin()), nil }
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(backtestMemory))
	report, err := f.replay(cmd, policies, source, target)
	if err != nil {
		return ExitWith(exitFindings, err)
	}
	return ExitWith(exitFindings, f.write(cmd.OutOrStdout(), report))
}

// validate returns the target as a share, 0..1.
func (f *backtestFlags) validate(cmd *cobra.Command) (target float64, err error) {
	target, err = parseShare(f.target)
	return target, errors.Join(
		reject.If(len(f.policies) == 0, "-f: at least one file with policies is required"),
		reject.If(f.accessLog == "", "--access-log: is required"),
		reject.If(f.accessLog == "-" && slices.Contains(f.policies, "-"), "-f, --access-log: only one may be standard input"),
		reject.If(!slices.Contains(backtest.Formats, backtest.Format(f.format)), "--format %q: must be combined, json or envoy", f.format),
		f.output.Validate(),
		reject.If(f.solve == "" && cmd.Flags().Changed("target"), "--target: needs --solve"),
		err)
}

// parseShare parses a share such as 0.1% or 0.001.
func parseShare(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if isPercent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share < 1) {
		return 0, fmt.Errorf("--target %q: must be a share below 100%%, such as 0.1%%", text)
	}
	return share, nil
}

func (f *backtestFlags) source() (backtest.Source, error) {
	source := backtest.Source{
		Open:   func() (io.ReadCloser, error) { return os.Open(f.accessLog) },
		Format: backtest.Format(f.format), Fields: map[backtest.Attribute]string{}, Host: f.host,
	}
	for _, pair := range f.fields {
		name, field, ok := strings.Cut(pair, "=")
		if !ok || field == "" {
			return source, fmt.Errorf("--map %q: must be ATTRIBUTE=FIELD", pair)
		}
		attribute, err := backtest.ParseAttribute(name)
		if err != nil {
			return source, fmt.Errorf("--map %q: %w", pair, err)
		}
		source.Fields[attribute] = field
	}
	return source, nil
}

// load reads the policies, which must be valid. Findings are written to standard error.
func (f *backtestFlags) load(cmd *cobra.Command) (policies []*v1alpha1.RateLimitPolicy, err error) {
	result, err := LoadValid(cmd, f.policies, f.namespace)
	if err != nil {
		return nil, err
	}
	for _, p := range result.Policies {
		policies = append(policies, p.RateLimitPolicy)
	}
	return policies, ExitWith(exitUsage, reject.If(len(policies) == 0, "-f: the files have no RateLimitPolicy"))
}

// spool copies standard input to a temporary file, since the log is read several times.
func spool(stdin io.Reader, source *backtest.Source) (remove func(), err error) {
	file, err := os.CreateTemp("", "weir-backtest-*.log")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.Remove(file.Name()) }
	_, err = io.Copy(file, stdin)
	if err = errors.Join(err, file.Close()); err != nil {
		remove()
		return nil, err
	}
	source.Open = func() (io.ReadCloser, error) { return os.Open(file.Name()) }
	return remove, nil
}

func (f *backtestFlags) replay(
	cmd *cobra.Command, policies []*v1alpha1.RateLimitPolicy, source backtest.Source, target float64,
) (*backtest.Report, error) {
	show, remove := progressOn(cmd.ErrOrStderr())
	defer remove()
	options := backtest.Options{Source: source, Progress: show}
	if f.solve != "" {
		return backtest.Solve(cmd.Context(), policies, backtest.Goal{Limit: f.solve, Target: target}, options)
	}
	plans, err := backtest.Compile(policies)
	if err != nil {
		return nil, err
	}
	return backtest.Run(cmd.Context(), plans, options)
}

// write writes the report and the drawing.
func (f *backtestFlags) write(w io.Writer, report *backtest.Report) error {
	if f.svg != "" {
		var drawing bytes.Buffer
		if err := report.WriteSVG(&drawing); err != nil {
			return err
		}
		if err := os.WriteFile(f.svg, drawing.Bytes(), 0o644); err != nil { //nolint:gosec // others may look at it
			return err
		}
	}
	return f.output.WriteValue(w, report, report.Write)
}
