// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

// StartWithClock starts a server whose clock the test advances.
var StartWithClock = start
