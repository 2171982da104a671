// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/offline"
)

// execute runs the command and returns its output and the exit code.
func execute(t *testing.T, cmd *cobra.Command, stdin string, args ...string) (code int, out, notes string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{}, args...)) // nil would be the arguments of the test
	if err = cmd.ExecuteContext(t.Context()); err != nil {
		code = 1
		if exit, ok := errors.AsType[*offline.ExitError](err); ok {
			code, err = exit.Code, exit.Err
		}
	}
	return code, stdout.String(), stderr.String(), err
}

const catchAll = `{"apiVersion": "ratelimit.weir.dev/v1alpha1", "kind": "RateLimitPolicy", "metadata": {"name": "all"},
	"spec": {"matches": [{"paths": ["/*"]}], "limits": [{"name": "l", "algorithm": "FixedWindow", "threshold": 1, "window": "1s"}]}}`

const (
	keyGroup     = `{"apiVersion": "ratelimit.weir.dev/v1alpha1", "kind": "RateLimitKeyGroup", "metadata": {"name": "gold"}, "spec": {"group": "gold", "keys": ["a"]}}`
	oneException = `{"apiVersion": "ratelimit.weir.dev/v1alpha1", "kind": "RateLimitException", "metadata": {"name": "launch"},
		"spec": {"policy": "p", "key": ["a"], "until": "2026-12-01T06:00:00Z", "limits": [{"name": "l", "threshold": 2}]}}`
)

func TestExitCodesOfValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string // in the output or the error
	}{
		"valid":                    {"", []string{"../../config/samples"}, 0, "0 errors, 0 warnings, 17 valid policies, 2 valid key groups, 1 valid exception\n"},
		"a warning":                {catchAll, []string{"-"}, 0, "stdin:2:23: warning: default/all: spec.matches[0] is a catch-all"},
		"in another namespace":     {catchAll, []string{"-", "-n", "team"}, 0, "warning: team/all: "},
		"a warning, strictly":      {catchAll, []string{"-", "--strict"}, 1, "0 errors, 1 warning, 1 valid policy\n"},
		"an error":                 {"a: [", []string{"-"}, 1, "1 error, 0 warnings, 0 valid policies\n"},
		"an error, for a workflow": {"- a", []string{"-", "-o", "github"}, 1, "::error file=stdin,line=1,col=1::must be an object\n"},
		"another kind":             {"apiVersion: v1\nkind: ConfigMap", []string{"-"}, 1, "0 errors, 0 warnings, 0 valid policies\n-: found no RateLimitPolicy"},
		"only a key group":         {keyGroup, []string{"-"}, 0, "0 valid policies, 1 valid key group\n"},
		"only an exception":        {oneException, []string{"-"}, 0, "0 valid policies, 1 valid exception\n"},
		"no file":                  {"", []string{"/no/file"}, 2, "/no/file: no such file"},
		"no path":                  {"", nil, 2, "requires at least 1 arg"},
		"an unknown format":        {"", []string{"-", "-o", "xml"}, 2, `-o "xml": must be text, json or github`},
		"an unknown flag":          {"", []string{"-", "--strictly"}, 2, "unknown flag: --strictly"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, out, _, err := execute(t, offline.NewValidate("weir"), tc.stdin, tc.args...)
			g.Expect(code).To(Equal(tc.code))
			if err != nil {
				out += err.Error()
			}
			g.Expect(out).To(ContainSubstring(tc.want))
		})
	}
}
