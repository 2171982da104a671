// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
)

// Commands returns the commands of this package.
func Commands(c *connect.Connection) []*cobra.Command {
	return []*cobra.Command{newStateCommand(c), newBlockCommand(c), newUnblockCommand(c), newResetCommand(c), newBlocksCommand(c), newTopCommand(c), newWhoCommand(c)}
}
