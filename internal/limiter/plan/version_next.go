// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build weir_next_version

package plan

// Version is one above the release's, for tests of a rollout that raises it.
const Version = 3

// expressibleBefore reports false for plans in Shadow mode with overrides, as an example of
// what only a later version can express.
func expressibleBefore(r Record) bool {
	p, ok := r.(*Plan)
	return !ok || p.Mode != ModeShadow || len(p.Overrides) == 0
}
