// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/offline"
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
	var allowPartial bool
	cmd := &cobra.Command{
		Use:   "envoy-ratelimit FILE",
		Short: "Convert a configuration of envoyproxy/ratelimit",
		Long: `Convert a configuration of envoyproxy/ratelimit.

Writes a RateLimitPolicy for every limit of the file to standard output. Standard
error gets a note for every difference. FILE may be - for standard input.

If a limit cannot be converted, the command writes no policies and exits with
status 3, unless --allow-partial is set.`,
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
			if lost := countLosses(notes); lost > 0 && !allowPartial {
				return &offline.ExitError{Code: statusPartial, Err: fmt.Errorf(
					"%s: %d limits cannot be converted; --allow-partial converts the others", args[0], lost)}
			}
			return convert.Write(cmd.OutOrStdout(), policies)
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", policyfile.DefaultNamespace, "namespace of the policies")
	cmd.Flags().BoolVar(&allowPartial, "allow-partial", false, "convert the other limits if some cannot be converted")
	return cmd
}

// statusPartial is the exit status if limits cannot be converted.
const statusPartial = 3

func countLosses(notes []convert.Note) (lost int) {
	for _, n := range notes {
		if n.Loss {
			lost++
		}
	}
	return lost
}

func readFile(stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
