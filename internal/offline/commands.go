// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import "github.com/spf13/cobra"

// Commands returns the commands. The program is their first words in examples.
func Commands(program string) []*cobra.Command {
	return []*cobra.Command{NewValidate(program), NewBacktest(program), NewConvert(program)}
}
