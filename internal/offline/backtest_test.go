// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/offline"
)

const twoAMinute = `{"apiVersion": "ratelimit.weir.dev/v1alpha1", "kind": "RateLimitPolicy", "metadata": {"name": "p"},
	"spec": {"matches": [{"hosts": ["shop.example"]}], "limits": [{"name": "l", "algorithm": "FixedWindow", "threshold": 2, "window": "1m"}]}}`

// fourLines are of one second.
var fourLines = strings.Repeat(`192.0.2.1 - - [01/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`+"\n", 4)

func TestBacktestCommand(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	policy, broken, log, svg := filepath.Join(dir, "p.json"), filepath.Join(dir, "broken.json"), filepath.Join(dir, "log"), filepath.Join(dir, "out.svg")
	g.Expect(os.WriteFile(policy, []byte(twoAMinute), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(broken, []byte(strings.Replace(twoAMinute, "FixedWindow", "fixedwindow", 1)), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(log, []byte(fourLines), 0o600)).To(Succeed())
	run := []string{"-f", policy, "--access-log", log, "--host", "shop.example"}
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string // in the output, the notes or the error
	}{
		"a file":                 {"", append(run, "--svg", svg), 0, "Denied:              2 of 4 (50.00%)\n"},
		"standard input":         {fourLines, []string{"-f", policy, "--access-log", "-", "--host", "shop.example"}, 0, "2 of 4 (50.00%)"},
		"a solution":             {"", append(run, "--solve", "l", "--target", "25%"), 0, "Solution:            threshold 3 for limit l of default/p denies 1 of 4 (25.00%); 2 denies 2 of 4 (50.00%)\n"},
		"a solution, from stdin": {fourLines, []string{"-f", policy, "--access-log", "-", "--host", "shop.example", "--solve", "p/l", "--target", "0"}, 0, "threshold 4 for limit l"},
		"policies from stdin":    {twoAMinute, []string{"-f", "-", "--access-log", log, "--host", "shop.example"}, 0, "2 of 4"},
		"a missing attribute":    {"", []string{"-f", policy, "--access-log", log}, 1, "policy default/p: spec.matches[0].hosts needs the attribute host, which the log lacks; set it with --host, or --map host=FIELD"},
		"an invalid policy":      {"", []string{"-f", broken, "--access-log", log}, 1, "broken.json:2:78: error: default/p: spec.limits[0].algorithm"},
		"no log":                 {"", []string{"-f", policy, "--access-log", "/no/log"}, 1, "/no/log: no such file"},
		"no such limit":          {"", append(run, "--solve", "x"), 1, `no policy has the limit "x"`},
		"no policy":              {"{}", []string{"-f", "-", "--access-log", log}, 2, "-f: the files have no RateLimitPolicy"},
		"no file":                {"", []string{"-f", "/no/file", "--access-log", log}, 2, "/no/file: no such file"},
		"no flags":               {"", nil, 2, "-f: at least one file with policies is required\n--access-log: is required"},
		"an argument":            {"", append(run, "x"), 2, `unknown command "x"`},
		"two from stdin":         {"", []string{"-f", "-", "--access-log", "-"}, 2, "-f, --access-log: only one may be standard input"},
		"an unknown format":      {"", append(run, "--format", "xml"), 2, `--format "xml": must be combined, json or envoy`},
		"an unknown output":      {"", append(run, "-o", "wide"), 2, `-o "wide": must be json or yaml`},
		"a target alone":         {"", append(run, "--target", "1%"), 2, "--target: needs --solve"},
		"a target above 1":       {"", append(run, "--solve", "l", "--target", "100%"), 2, `--target "100%": must be a share below 100%, such as 0.1%`},
		"a target in words":      {"", append(run, "--solve", "l", "--target", "NaN"), 2, `--target "NaN": must be`},
		"an unknown attribute":   {"", append(run, "--map", "cost=9"), 2, `--map "cost=9": unknown attribute "cost"`},
		"no field":               {"", append(run, "--map", "host"), 2, `--map "host": must be ATTRIBUTE=FIELD`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, out, notes, err := execute(t, offline.NewBacktest("weir"), tc.stdin, tc.args...)
			if err != nil {
				notes += err.Error()
			}
			g.Expect(out + notes).To(ContainSubstring(tc.want))
			g.Expect(code).To(Equal(tc.code))
		})
	}
	g.Expect(os.ReadFile(svg)).To(HavePrefix("<svg "))
	for format, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, into any) error { return yaml.Unmarshal(text, into) },
	} {
		_, out, _, _ := execute(t, offline.NewBacktest("weir"), "", append(run, "-o", format)...)
		var report struct{ Denied struct{ Share float64 } }
		g.Expect(decode([]byte(out), &report)).To(Succeed())
		g.Expect(report.Denied.Share).To(Equal(0.5))
	}
}
