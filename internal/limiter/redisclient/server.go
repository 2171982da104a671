// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"cmp"
	"strconv"
	"strings"
)

// server is a kind of server, such as redis 7.0.15. It is zero if the kind is not known.
type server struct{ name, version string }

// oldestTested is the oldest version of each server that is tested.
var oldestTested = map[string]server{
	"redis":  {"redis", "7.0"},
	"valkey": {"valkey", "8.0"},
}

// String implements fmt.Stringer.
func (s server) String() string { return strings.TrimSpace(s.name + " " + s.version) }

// MarshalText implements encoding.TextMarshaler, for the log.
func (s server) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// oldestTested returns the oldest version of that server that is tested, if s is older, else "".
func (s server) oldestTested() string {
	oldest := oldestTested[s.name]
	if oldest.version == "" || compareVersions(s.version, oldest.version) >= 0 {
		return ""
	}
	return oldest.version
}

func compareServers(a, b server) int {
	return cmp.Or(strings.Compare(a.name, b.name), compareVersions(a.version, b.version))
}

// compareVersions compares versions such as 7.0.15 by major and minor version.
func compareVersions(a, b string) int {
	aMajor, aMinor := majorMinor(a)
	bMajor, bMinor := majorMinor(b)
	return cmp.Or(cmp.Compare(aMajor, bMajor), cmp.Compare(aMinor, bMinor))
}

func majorMinor(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	major, _ = strconv.Atoi(parts[0]) // 0 if it is unknown
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}
