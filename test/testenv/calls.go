// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Calls returns how often the server of the client has run a command, by its name in lower case.
func Calls(tb testing.TB, client redis.UniversalClient, command string) (calls int) {
	tb.Helper()
	info, err := client.Info(tb.Context(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(info) {
		_, _ = fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &calls)
	}
	return calls
}
