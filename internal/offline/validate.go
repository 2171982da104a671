// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/validate"
)

// NewValidate returns the command validate of the program.
func NewValidate(program string) *cobra.Command {
	var strict bool
	var namespace string
	format := string(validate.FormatText)
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check manifests of policies without a cluster",
		Long: `Check manifests of policies without a cluster.

Reads files, folders with all folders in them, and with - standard input. Policies, key
groups and exceptions are checked as by the API server, the controller and the webhook,
all files together. Other kinds are skipped, except Namespaces: their annotations grant
hosts and domains. The tenancy of a Namespace that is not among the files is not checked.

Exit codes: 0 no errors, 1 errors (with --strict, warnings too) or no object of Weir,
2 invalid arguments or unreadable files.`,
		Example: fmt.Sprintf("  %s validate rate-limits/ namespaces.yaml\n"+
			"  kustomize build overlays/prod | %s validate - --strict -o github", program, program),
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(validate.Formats, validate.Format(format)) {
				return ExitWith(exitUsage, fmt.Errorf("-o %q: must be text, json or github", format))
			}
			sources, err := validate.Load(args, cmd.InOrStdin())
			if err != nil {
				return ExitWith(exitUsage, err)
			}
			result := validate.Run(cmd.Context(), sources, namespace)
			out := cmd.OutOrStdout()
			if err := result.Write(out, validate.Format(format), HasColor(out)); err != nil {
				return ExitWith(exitFindings, err)
			}
			if result.IsEmpty() && result.Count(validate.SeverityError) == 0 {
				return ExitWith(exitFindings, fmt.Errorf("%s: found no RateLimitPolicy, RateLimitKeyGroup or RateLimitException", strings.Join(args, ", ")))
			}
			if result.Count(validate.SeverityError) > 0 || strict && result.Count(validate.SeverityWarning) > 0 {
				return &ExitError{Code: exitFindings}
			}
			return nil
		},
	}
	addNamespaceFlag(cmd, &namespace)
	cmd.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors")
	cmd.Flags().StringVarP(&format, "output", "o", format, "text, json, or github for annotations in a workflow")
	return usageErrors(cmd)
}
