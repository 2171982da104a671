// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import "fmt"

// PlansKey returns the hash in Redis that holds the plans, in that version of the registry.
func PlansKey(version int) string { return fmt.Sprintf("weir:%d:{registry}", version) }
