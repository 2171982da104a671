// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/policyfile"
)

func newConvertCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert",
		Short: "Convert the configuration of another rate limiter into policies",
	}
	cmd.AddCommand(newConvertEnvoyRatelimitCommand())
	return cmd
}

func newConvertEnvoyRatelimitCommand() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "envoy-ratelimit FILE",
		Short: "Convert a configuration of envoyproxy/ratelimit",
		Long: `Convert a configuration of envoyproxy/ratelimit.

Writes a RateLimitPolicy for every limit of the file to standard output. Standard
error gets a note for everything that could not be converted. FILE may be - for
standard input.`,
		Example: "  weir convert envoy-ratelimit config.yaml | kubectl apply -f -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readFile(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			policies, notes, err := convert.EnvoyRatelimit(data, namespace)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			for _, n := range notes {
				if _, err := fmt.Fprintln(cmd.ErrOrStderr(), n); err != nil {
					return err
				}
			}
			return convert.Write(cmd.OutOrStdout(), policies)
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", policyfile.DefaultNamespace, "namespace of the policies")
	return cmd
}

func readFile(stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
