// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build valkey

package testenv_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

func init() {
	withClock["valkey"] = testenv.StartValkeyWithClock
}

func TestValkeyReportsItsKind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(connect(t, testenv.StartValkey(t)).Info(t.Context(), "server").Val()).To(ContainSubstring("valkey_version:"))
}

func TestValkeyTakesArgumentsAndComesBack(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := testenv.StartValkey(t, "--requirepass", "secret")
	g.Expect(connect(t, server).Ping(t.Context()).Err()).To(MatchError(ContainSubstring("NOAUTH")))
	server.Stop()
	server.Start()
	g.Expect(connect(t, server).Ping(t.Context()).Err()).To(MatchError(ContainSubstring("NOAUTH")))
}

func TestValkeySentinelsFailOver(t *testing.T) {
	t.Parallel()
	testSentinelsFailOver(t, testenv.SentinelOptions{Valkey: true})
}
