// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !weir_next_version

package plan

// Version is the version of the registry: of the encoding of plans and of the layout of their
// keys. A process reads and writes this version and the one before, so that two releases of
// adjacent versions can share a registry during a rollout.
//
// A release that changes the layout, or that changes the meaning of a plan, must raise it. A
// release that only adds a member or a value need not: an earlier reader rejects a plan with
// them and keeps the one it has, and the encoding of plans without them does not change.
const Version = 1

// expressibleBefore reports whether the version before can express the plan.
func expressibleBefore(*Plan) bool { return true }
