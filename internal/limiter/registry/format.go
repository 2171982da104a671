// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// format is the number of one form of the registry: of the layout of its keys, and of the
// encoding of its plans. Each format has its own keys, so that two releases can share one
// Redis during a rollout. A release that changes either raises plan.Version.
type format int

// formatsOf returns the formats that a release of that version reads and writes, newest first:
// its own and the one before.
func formatsOf(version int) []format {
	if version == 1 {
		return []format{1}
	}
	return []format{format(version), format(version - 1)}
}

// supported are the formats of this release.
var supported = formatsOf(plan.Version)

// formatKeys is the number of keys of one format.
const formatKeys = 3

// keys returns the keys of the registry in this format: see doc.go.
func (f format) keys(prefix string) []string {
	plans := prefix + strconv.Itoa(int(f)) + ":{registry}"
	return []string{plans, plans + ":meta", plans + ":changes"}
}

// newest returns the newest of the formats that is among the announced ones, or 0.
func newest(formats, announced []format) format {
	if i := slices.IndexFunc(formats, func(f format) bool { return slices.Contains(announced, f) }); i >= 0 {
		return formats[i]
	}
	return 0
}

// storedFormat describes the registry in one format, in the record of the term.
type storedFormat struct {
	// Keys are all its keys, so that a release that does not know the format can delete them.
	Keys []string `json:"keys"`
	// Maintained is true while the leader of the term keeps it equal to the desired plans.
	Maintained bool `json:"maintained"`
}

// storedFormats are the formats that have keys in Redis.
type storedFormats map[format]storedFormat

// maintained returns the formats that the leader of the term maintains.
func (s storedFormats) maintained() []format {
	var formats []format
	for f, stored := range s {
		if stored.Maintained {
			formats = append(formats, f)
		}
	}
	return formats
}
