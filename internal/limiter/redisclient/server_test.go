// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestOldServers(t *testing.T) {
	for s, want := range map[server]string{
		{"redis", "7.0.15"}:    "",
		{"redis", "7.0"}:       "",
		{"redis", "10.1.0"}:    "",
		{"redis", "6.2.14"}:    "7.0",
		{"redis", "6"}:         "7.0",
		{"redis", "255.0"}:     "",
		{"valkey", "8.0.1"}:    "",
		{"valkey", "7.2.5"}:    "8.0",
		{"valkey", "9"}:        "",
		{"dragonfly", "1.0.0"}: "",
		{}:                     "",
	} {
		NewWithT(t).Expect(s.oldestTested()).To(Equal(want), s.String())
	}
}
