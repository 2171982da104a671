// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"testing"

	"github.com/weir-dev/weir/test/storetest"
)

// The model keeps the promises that it is compared with other stores for.
func TestPromises(t *testing.T) { storetest.TestPromises(t, storetest.NewModel()) }

func TestScenarios(t *testing.T) { storetest.TestScenarios(t, storetest.NewModel()) }

func TestConcurrency(t *testing.T) {
	model := storetest.NewModel()
	storetest.TestConcurrency(t, &storetest.Replicas{Open: func(_ testing.TB, n int) []storetest.Evaluator {
		stores := make([]storetest.Evaluator, n)
		for i := range stores {
			stores[i] = model
		}
		return stores
	}})
}
