// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build valkey

package redisclient_test

import (
	"testing"

	"github.com/weir-dev/weir/test/testenv"
)

func init() {
	servers["Valkey"] = testenv.StartValkey
}

func TestMonitorOfValkeySentinels(t *testing.T) {
	t.Parallel()
	testMonitorOfSentinels(t, testenv.SentinelOptions{Valkey: true}, "valkey 8.")
}

func TestValkeySentinelURLWithDatabaseAndClose(t *testing.T) {
	t.Parallel()
	testSentinelURLWithDatabaseAndClose(t, testenv.SentinelOptions{Valkey: true})
}
