// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/reject"
)

// Commands returns the commands of this package.
func Commands(c *connect.Connection) []*cobra.Command {
	return []*cobra.Command{newStateCommand(c), newBlockCommand(c), newUnblockCommand(c), newResetCommand(c), newBlocksCommand(c), newTopCommand(c), newWhoCommand(c)}
}

// arguments are the arguments of every command on a key.
const arguments = "POLICY [KEY...]"

// keyHelp explains them.
const keyHelp = `
POLICY is the name of a RateLimitPolicy in the Namespace of -n. KEY is given once for each part
of the policy's key, in its order, and omitted for a policy without a key. A client address, such
as 192.0.2.1 or 2001:db8::1, stands for the network that the policy counts as one client. A key that
no request can have is an error, unless it has live state or --as-given is set.

--shared names the budget that requests without the key share, if onMissingKey of the policy is Share.
With a key of several parts, give all parts and write "" for each that the requests lack.

--part NAME=VALUE selects among the keys that are blocked or were denied in the last minutes by
one part: NAME is the name of a header or descriptor entry, remoteAddress, principal or expression.`

// keyCommand is a command on one key of a policy, or on listed keys with one value.
type keyCommand struct {
	*connect.Connection
	output      offline.Output
	keyHash     string
	asGiven     bool
	shared      bool
	part        string // NAME=VALUE
	all         bool
	allHelp     string
	onlyBlocked bool // changes only found keys that are blocked
}

// keyCall is what a command does with a key.
type keyCall func(ctx context.Context, api *connect.Client, t httptypes.Target) (offline.Answer, error)

// add adds the command's flags and returns the command, which runs call with the key.
func (k *keyCommand) add(cmd *cobra.Command, call keyCall) *cobra.Command {
	k.output.AddFlag(cmd)
	cmd.Flags().StringVar(&k.keyHash, "key-hash", "", "hash of a key that kubectl weir blocks, top or who lists, in place of KEY")
	cmd.Flags().BoolVar(&k.asGiven, "as-given", false, "use KEY as it is, although no request can have it: callers gave it with their checks")
	cmd.Flags().BoolVar(&k.shared, "shared", false, `the budget of requests that lack the parts given as "", or every part without KEY`)
	cmd.Flags().StringVar(&k.part, "part", "", "NAME=VALUE of one part, to select listed keys in place of KEY")
	cmd.Flags().BoolVar(&k.all, "all", false, cmp.Or(k.allHelp, "with --part, all keys that it selects"))
	cmd.Use += " " + arguments
	cmd.Long = cmd.Short + ".\n" + keyHelp
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(k.output.Validate(), k.Validate(), k.validateKey(args)); err != nil {
			return err
		}
		policy, err := PolicyID(k.Connection, args[0])
		if err != nil {
			return err
		}
		return k.WithClient(cmd.Context(), func(ctx context.Context, api *connect.Client) error {
			if k.part != "" {
				return k.onSelected(ctx, cmd, api, policy, call)
			}
			got, err := call(ctx, api, httptypes.Target{Policy: policy, Key: args[1:], KeyHash: k.keyHash, AsGiven: k.asGiven, Shared: k.shared})
			if err != nil {
				return err
			}
			return k.output.Write(cmd.OutOrStdout(), got)
		})
	}
	return cmd
}

// validateKey rejects contradicting names of keys.
func (k *keyCommand) validateKey(args []string) error {
	given, named := len(args) > 1, len(args) > 1 || k.keyHash != ""
	return errors.Join(
		reject.If(given && k.keyHash != "", "--key-hash: cannot be combined with KEY"),
		reject.If(named && k.part != "", "--part: cannot be combined with a key"),
		reject.If(!given && k.asGiven, "--as-given: needs KEY"),
		reject.If(named && k.all, "--all: cannot be combined with a key"),
		reject.If(k.all && k.part == "" && k.allHelp == "", "--all: needs --part"),
		k.validateParts(args[1:]))
}

// validateParts rejects empty parts of a key without --shared, --shared beside other names of keys, and a --part of another form.
func (k *keyCommand) validateParts(key []string) error {
	name, value, isPart := strings.Cut(k.part, "=")
	return errors.Join(
		reject.If(!k.shared && slices.Contains(key, ""), "KEY: must not be empty; --shared names requests that lack the key"),
		reject.If(k.shared && (k.keyHash != "" || k.part != "" || k.all || k.asGiven),
			"--shared: cannot be combined with --key-hash, --part, --all or --as-given"),
		reject.If(k.part != "" && (!isPart || name == "" || value == ""), "--part %q: must be NAME=VALUE, such as x-account=user-42", k.part))
}

// PolicyID returns the ID of the policy with the name.
func PolicyID(c *connect.Connection, name string) (string, error) {
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("POLICY %q: must be a name without slash; set its Namespace with -n", name)
	}
	namespace, err := c.Namespace()
	return namespace + "/" + name, err
}

func newStateCommand(c *connect.Connection) *cobra.Command {
	k := &keyCommand{Connection: c}
	var remoteAddress, principal string
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show the limits and the block of a key",
		Example: `  kubectl weir state login user-42 192.0.2.1 -n shop
  kubectl weir state login --part x-account=user-42 -n shop -o json
  kubectl weir state login --shared -n shop`,
	}
	cmd.Flags().StringVar(&remoteAddress, "remote-address", "", "client address, for overrides that select by it")
	cmd.Flags().StringVar(&principal, "principal", "", "authenticated user, for overrides that select by it")
	return k.add(cmd, func(ctx context.Context, api *connect.Client, t httptypes.Target) (offline.Answer, error) {
		return api.State(ctx, t, remoteAddress, principal)
	})
}

func newBlockCommand(c *connect.Connection) *cobra.Command {
	k := &keyCommand{Connection: c}
	var length time.Duration
	cmd := &cobra.Command{
		Use:     "block",
		Short:   "Deny every check of a key for some time; replaces an existing block",
		Example: "  kubectl weir block login user-42 192.0.2.1 --for 10m -n shop",
		PreRunE: func(*cobra.Command, []string) error {
			if length <= 0 {
				return errors.New("--for: must be more than 0, such as --for 10m")
			}
			return nil
		},
	}
	duration.Var(cmd.Flags(), &length, "for", 0, "length of the block, 1ms to 720h (required)")
	return k.add(cmd, func(ctx context.Context, api *connect.Client, t httptypes.Target) (offline.Answer, error) {
		t.Duration = length.String()
		return api.Change(ctx, "/v1/block", t, fmt.Sprintf("Blocked the key under %s for %s.", t.Policy, connect.Short(length)), "")
	})
}

func newUnblockCommand(c *connect.Connection) *cobra.Command {
	k := &keyCommand{
		Connection: c, onlyBlocked: true,
		allHelp: "lift all blocks of the policy that kubectl weir blocks lists; with --part, those that it selects",
	}
	cmd := &cobra.Command{
		Use:   "unblock",
		Short: "Lift the block of a key; spent units stay spent",
		Example: `  kubectl weir unblock login user-42 192.0.2.1 -n shop
  kubectl weir unblock login --part x-account=user-42 --all -n shop
  kubectl weir unblock login --key-hash 8b8e3c0f4f8f0c1e -n shop
  kubectl weir unblock login --all -n shop`,
	}
	return k.add(cmd, func(ctx context.Context, api *connect.Client, t httptypes.Target) (offline.Answer, error) {
		if k.all && k.part == "" {
			return api.UnblockAll(ctx, t.Policy)
		}
		return api.Change(ctx, "/v1/unblock", t, "Lifted the block of the key under "+t.Policy+".",
			"The key was not blocked under "+t.Policy+".")
	})
}

func newResetCommand(c *connect.Connection) *cobra.Command {
	k := &keyCommand{Connection: c}
	cmd := &cobra.Command{
		Use:     "reset",
		Short:   "Delete the spent units and the block of a key",
		Example: "  kubectl weir reset login user-42 192.0.2.1 -n shop",
	}
	return k.add(cmd, func(ctx context.Context, api *connect.Client, t httptypes.Target) (offline.Answer, error) {
		return api.Change(ctx, "/v1/reset", t, "Reset the key under "+t.Policy+".",
			"The key had no spent units and no block under "+t.Policy+".")
	})
}
