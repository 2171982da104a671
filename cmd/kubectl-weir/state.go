// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// arguments are those of every command on a key.
const arguments = "POLICY [KEY...]"

// keyHelp explains them.
const keyHelp = `
POLICY is the name of a RateLimitPolicy in the Namespace of -n. KEY is given once for each part
of the policy's key, in its order, and omitted for a policy without a key. A part of type
RemoteAddress is the network that the policy counts as one client, such as 192.0.2.1 or
2001:db8::/64.`

// keyCommand is a command on one key of a policy.
type keyCommand struct {
	*connection
	output  output
	keyHash string
}

// add adds the command's flags and returns the command, which runs call with the key.
func (k *keyCommand) add(cmd *cobra.Command, call func(ctx context.Context, api *client, t target) (answer, error)) *cobra.Command {
	k.output.addFlag(cmd)
	cmd.Flags().StringVar(&k.keyHash, "key-hash", "", "hash of a key that kubectl weir blocks or top lists, in place of KEY")
	cmd.Use += " " + arguments
	cmd.Long = cmd.Short + ".\n" + keyHelp
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(k.output.validate(), k.validate()); err != nil {
			return err
		}
		t, err := k.target(args)
		if err != nil {
			return err
		}
		return k.withClient(cmd.Context(), func(ctx context.Context, api *client) error {
			got, err := call(ctx, api, t)
			if err != nil {
				return err
			}
			return k.output.write(cmd.OutOrStdout(), got)
		})
	}
	return cmd
}

// target returns the key that the arguments name.
func (k *keyCommand) target(args []string) (target, error) {
	if k.keyHash != "" && len(args) > 1 {
		return target{}, errors.New("--key-hash: not with KEY")
	}
	policy, err := k.policy(args[0])
	return target{Policy: policy, Key: args[1:], KeyHash: k.keyHash}, err
}

// policy returns the ID of the policy with the name.
func (c *connection) policy(name string) (string, error) {
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("POLICY %q: must be a name without slash; set its Namespace with -n", name)
	}
	namespace, err := c.namespace()
	return namespace + "/" + name, err
}

func newStateCommand(c *connection) *cobra.Command {
	k := &keyCommand{connection: c}
	var remoteAddress, principal string
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show the limits and the block of a key",
		Example: `  kubectl weir state login user-42 -n shop
  kubectl weir state login user-42 192.0.2.1 -n shop -o json`,
	}
	cmd.Flags().StringVar(&remoteAddress, "remote-address", "", "client address, for overrides that select by it")
	cmd.Flags().StringVar(&principal, "principal", "", "authenticated user, for overrides that select by it")
	return k.add(cmd, func(ctx context.Context, api *client, t target) (answer, error) {
		return api.state(ctx, t, remoteAddress, principal)
	})
}

func newBlockCommand(c *connection) *cobra.Command {
	k := &keyCommand{connection: c}
	var length time.Duration
	cmd := &cobra.Command{
		Use:     "block",
		Short:   "Deny every check of a key for some time; replaces an existing block",
		Example: "  kubectl weir block login user-42 --for 10m -n shop",
		PreRunE: func(*cobra.Command, []string) error {
			if length <= 0 {
				return errors.New("--for: must be more than 0, such as --for 10m")
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&length, "for", 0, "length of the block, 1ms to 720h (required)")
	return k.add(cmd, func(ctx context.Context, api *client, t target) (answer, error) {
		t.Duration = length.String()
		return api.change(ctx, "/v1/block", t, fmt.Sprintf("Blocked the key under %s for %s.", t.Policy, short(length)), "")
	})
}

func newUnblockCommand(c *connection) *cobra.Command {
	k := &keyCommand{connection: c}
	all := false
	cmd := &cobra.Command{
		Use:   "unblock",
		Short: "Lift the block of a key; spent units stay spent",
		Example: `  kubectl weir unblock login user-42 -n shop
  kubectl weir unblock login --key-hash 8b8e3c0f4f8f0c1e -n shop
  kubectl weir unblock login --all -n shop`,
		PreRunE: func(_ *cobra.Command, args []string) error {
			if all && (len(args) > 1 || k.keyHash != "") {
				return errors.New("--all: not with a key")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "lift all blocks of the policy that kubectl weir blocks lists")
	return k.add(cmd, func(ctx context.Context, api *client, t target) (answer, error) {
		if all {
			return api.unblockAll(ctx, t.Policy)
		}
		return api.change(ctx, "/v1/unblock", t, "Lifted the block of the key under "+t.Policy+".",
			"The key was not blocked under "+t.Policy+".")
	})
}

func newResetCommand(c *connection) *cobra.Command {
	k := &keyCommand{connection: c}
	cmd := &cobra.Command{
		Use:     "reset",
		Short:   "Delete the spent units and the block of a key",
		Example: "  kubectl weir reset login user-42 -n shop",
	}
	return k.add(cmd, func(ctx context.Context, api *client, t target) (answer, error) {
		return api.change(ctx, "/v1/reset", t, "Reset the key under "+t.Policy+".",
			"The key had no spent units and no block under "+t.Policy+".")
	})
}
