// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestRaiseRejectsArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"requires at least 1 arg":                    {"raise", "--for", "1h"},
		"--for 0s: must be 1s to 90d":                {"raise", "login", "--limit", "a=1"},
		"must be 1s to 90d, such as --for 4h":        {"raise", "login", "--limit", "a=1", "--for", "91d"},
		"--limit, --burst, --allow: one is required": {"raise", "login", "--for", "1h"},
		`--limit "burst": must be LIMIT=NUMBER`:      {"raise", "login", "--for", "1h", "--limit", "burst"},
		`--burst "burst=0": must be LIMIT=NUMBER`:    {"raise", "login", "--for", "1h", "--burst", "burst=0"},
		"--allow: cannot be combined with --limit":   {"raise", "login", "--for", "1h", "--burst", "burst=1", "--allow"},
		"-n shop names another Namespace":            {"raise", "bank/login", "--for", "1h", "--allow", "-n", "shop"},
		"must be NAME or NAMESPACE/NAME":             {"raise", "bank/login/x", "--for", "1h", "--allow"},
		"--address: the command changes a cluster":   {"raise", "login", "--for", "1h", "--allow", "--address", "http://127.0.0.1:1"},
		"--address: the command reads exceptions":    {"exceptions", "--address", "http://127.0.0.1:1"},
		"accepts at most 1 arg":                      {"exceptions", "a", "b"},
		`unknown command "x"`:                        {"exceptions", "prune", "x"},
	} {
		g := NewWithT(t)
		code, out, complaint := command(t, args...)
		g.Expect(complaint).To(ContainSubstring(want))
		g.Expect(code).To(Equal(2), want)
		g.Expect(out).To(BeEmpty())
	}
}
