// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rotate gives the user weir a new password, withdraws the one before the last, and prints the new one, which expires
// in two seconds. It takes the folder of its state, and the port of Redis.
const rotate = `#!/bin/sh
set -e
n=$(($(cat "$1/runs" 2>/dev/null || echo 0) + 1))
redis-cli -p "$2" ACL SETUSER weir on ">password-$n" '~*' '&*' '+@all' >/dev/null
[ "$n" -le 2 ] || redis-cli -p "$2" ACL SETUSER weir "<password-$((n - 2))" >/dev/null
echo "$n" > "$1/runs"
echo "{\"user\": \"weir\", \"password\": \"password-$n\", \"expiry\": \"$(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%S.%NZ)\"}"
`

// RotatingCredentials is a command that prints credentials of a Redis which expire after two seconds.
type RotatingCredentials struct {
	tb testing.TB
	// Command is its program with arguments.
	Command string
	folder  string
}

// NewRotatingCredentials returns a command for the Redis.
func NewRotatingCredentials(tb testing.TB, redis *Redis) *RotatingCredentials {
	tb.Helper()
	folder := tb.TempDir()
	program := filepath.Join(folder, "rotate")
	if err := os.WriteFile(program, []byte(rotate), 0o700); err != nil {
		tb.Fatal(err)
	}
	_, port, err := net.SplitHostPort(redis.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	return &RotatingCredentials{tb: tb, Command: strings.Join([]string{program, folder, port}, " "), folder: folder}
}

// Runs returns how often it has run.
func (c *RotatingCredentials) Runs() int {
	c.tb.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder, "runs"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // empty while it is written
	return n
}
