// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

func TestFreeAddrGivesNoAddressTwice(t *testing.T) {
	given := map[string]bool{}
	for range 500 {
		addr := testenv.FreeAddr(t)
		NewWithT(t).Expect(given).NotTo(HaveKey(addr))
		given[addr] = true
	}
}
