// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/policyfile"
)

// Commands returns the commands. The program is their first words in examples.
func Commands(program string) []*cobra.Command {
	return []*cobra.Command{NewValidate(program), NewBacktest(program), NewConvert(program)}
}

// addNamespaceFlag adds the flag of every command that reads or writes policies.
func addNamespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", policyfile.DefaultNamespace, "namespace of the policies without another one")
}
