// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestWireRejectsArguments(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for want, args := range map[string][]string{
		`"public": must be gateway/NAME`:                          {"public"},
		`"service/weir": must be gateway/NAME`:                    {"service/weir"},
		`"gateway/": must be gateway/NAME`:                        {"gateway/"},
		"--timeout 1µs: must be 1ms to 1h, in whole milliseconds": {"gateway/a", "--timeout", "1us"},
		`--service "A": a lowercase RFC 1123 subdomain must`:      {"gateway/a", "--service", "A"},
		"--address: the command reads a cluster":                  {"gateway/a", "--address", "http://127.0.0.1:1"},
		`-o "wide": must be json or yaml`:                         {"gateway/a", "-o", "wide"},
	} {
		code, _, complaint := command(t, append([]string{"wire"}, args...)...)
		NewWithT(t).Expect(code).To(Equal(2), want)
		NewWithT(t).Expect(complaint).To(ContainSubstring(want))
	}
}
