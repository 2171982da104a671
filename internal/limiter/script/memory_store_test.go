// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script_test

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/memory"
	"github.com/weir-dev/weir/internal/limiter/script"
)

func init() {
	script.NewOtherStore = func(now func() time.Time) script.OtherStore {
		return memory.NewStore(memory.Options{Keys: 1_000_000, Now: now})
	}
}
