// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/validate"
)

// Commands returns the commands. The program is their first words in examples.
func Commands(program string) []*cobra.Command {
	return []*cobra.Command{NewValidate(program), NewBacktest(program), NewConvert(program)}
}

// addNamespaceFlag adds the flag of every command that reads or writes policies.
func addNamespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", policyfile.DefaultNamespace, "namespace of the policies without another one")
}

// LoadValid returns the objects of the files, which must be valid, in the Namespace unless they set another one. Findings are
// written to standard error.
func LoadValid(cmd *cobra.Command, files []string, namespace string) (*validate.Result, error) {
	sources, err := validate.Load(files, cmd.InOrStdin())
	if err != nil {
		return nil, ExitWith(exitUsage, err)
	}
	result, problems := validate.Run(cmd.Context(), sources, namespace), cmd.ErrOrStderr()
	n := result.Count(validate.SeverityError)
	if n == 0 {
		return result, nil
	}
	err = result.Write(problems, validate.FormatText, HasColor(problems))
	return nil, ExitWith(exitFindings, cmp.Or(err, fmt.Errorf("-f: errors in the files: %d", n)))
}
