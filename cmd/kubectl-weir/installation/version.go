// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/offline"
)

// Set by the linker; see the Makefile.
var (
	version = "devel"
	commit  = "unknown"
	date    = "unknown"
)

func newVersionCommand(c *connect.Connection) *cobra.Command {
	var clientOnly bool
	var o offline.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of the plugin and of Weir",
		Example: "  kubectl weir version\n  kubectl weir version --client",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			v := &versions{Client: version, Commit: commit, Date: date}
			if clientOnly {
				return v.write(cmd.OutOrStdout(), o)
			}
			if err := c.Validate(); err != nil {
				return err
			}
			return c.WithoutToken(cmd.Context(), func(ctx context.Context, api *connect.Client) (err error) {
				if v.Server, err = api.Version(ctx); err != nil {
					return err
				}
				return v.write(cmd.OutOrStdout(), o)
			})
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "print only the version of the plugin")
	o.AddFlag(cmd)
	return cmd
}

// versions has the version of the plugin and, unless unknown, the version of Weir.
type versions struct {
	Client string `json:"client"`
	Commit string `json:"commit"`
	Date   string `json:"date"`
	Server string `json:"server,omitempty"`
}

// write writes the versions in the format.
func (v *versions) write(w io.Writer, o offline.Output) error {
	return o.WriteValue(w, v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "kubectl-weir %s (commit %s, built %s)\n", v.Client, v.Commit, v.Date)
		if err == nil && v.Server != "" {
			_, err = fmt.Fprintf(w, "weir %s\n", v.Server)
		}
		return err
	})
}
