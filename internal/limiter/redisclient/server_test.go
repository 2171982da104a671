// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
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

// A server that has become a replica rejects the writes of a script; the script returns the error of
// each call as a text.
func TestRepliesOfReadOnlyServers(t *testing.T) {
	for text, want := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                          true,
		"@user_script: 12: -READONLY You can't write against a read only replica.":                       true, // before Redis 7.0
		"ERR Error running script (call to f_1): @user_script:3: @user_script: 3: -READONLY You can't .": true,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                              false,
		"hourly-READONLY": false, // the name of a limit
	} {
		cmd := redis.NewCmd(t.Context(), "EVALSHA")
		cmd.SetVal([]any{[]any{int64(0)}, text})
		NewWithT(t).Expect(isReadOnly(cmd, nil)).To(Equal(want), text)
	}
}
