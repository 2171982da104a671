// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/offline"
)

// actedKey is a selected key with the answer of the call, as in the output for programs.
type actedKey struct {
	Policy  string          `json:"policy"`
	Key     []string        `json:"key"`
	KeyHash string          `json:"keyHash"`
	Masked  bool            `json:"masked,omitempty"`
	Answer  json.RawMessage `json:"answer"`
}

// onSelected runs call with the listed keys of the policy that --part selects: with one, or with all if --all
// is set. It lists several keys without --all, and then fails.
func (k *keyCommand) onSelected(ctx context.Context, cmd *cobra.Command, api *connect.Client, policy string, call keyCall) error {
	name, value, _ := strings.Cut(k.part, "=")
	found := &foundKeys{value: value}
	body, err := find(ctx, api, cmd.ErrOrStderr(), url.Values{"policy": {policy}, "part": {name}}, found)
	if err != nil {
		return err
	}
	if len(found.Keys) == 0 {
		return k.noneSelected(policy, found)
	}
	selected := found.Keys
	if k.onlyBlocked {
		selected = slices.DeleteFunc(slices.Clone(selected), func(f httptypes.FoundKey) bool { return !f.Blocked })
	}
	if len(selected) == 0 || len(selected) > 1 && !k.all {
		if err := k.output.Write(cmd.OutOrStdout(), offline.Answer{Body: body, Text: found.write}); err != nil {
			return err
		}
	}
	switch {
	case len(selected) == 0:
		return k.note(cmd, "\nNone of these keys is blocked.\n")
	case len(selected) > 1 && !k.all:
		return fmt.Errorf("%d keys have --part %s: choose one with --key-hash, or all with --all", len(selected), k.part)
	}
	return k.act(ctx, cmd, api, selected, call)
}

// noneSelected returns the error of a selection without keys.
func (k *keyCommand) noneSelected(policy string, found *foundKeys) error {
	var notes strings.Builder
	if err := found.writeNotes(&notes); err != nil {
		return err
	}
	return fmt.Errorf("no listed key of %s has --part %s: a key that is neither blocked nor was denied in the last minutes is named by all its parts%s",
		policy, k.part, strings.TrimRight(notes.String(), "\n"))
}

// act runs call with each key and writes the answers.
func (k *keyCommand) act(ctx context.Context, cmd *cobra.Command, api *connect.Client, keys []httptypes.FoundKey, call keyCall) error {
	acted := []actedKey{}
	for i := range keys {
		f := &keys[i]
		got, err := call(ctx, api, httptypes.Target{Policy: f.Policy, KeyHash: f.KeyHash})
		if err != nil {
			return fmt.Errorf("key %s (%s): %w", connect.ListedText(&f.ListedKey), connect.HashText(f.KeyHash), err)
		}
		acted = append(acted, actedKey{f.Policy, f.Key, f.KeyHash, f.Masked, bytes.TrimSpace(got.Body)})
		heading := ""
		if i > 0 {
			heading = "\n"
		}
		if err := k.note(cmd, heading+"Key "+connect.ListedText(&f.ListedKey)+" ("+connect.HashText(f.KeyHash)+"):\n"); err != nil {
			return err
		}
		if k.output == "" {
			if err := got.Text(cmd.OutOrStdout()); err != nil {
				return err
			}
		}
	}
	if k.output == "" {
		return nil
	}
	return k.output.WriteValue(cmd.OutOrStdout(), map[string]any{"keys": acted}, nil)
}

// note writes text for people.
func (k *keyCommand) note(cmd *cobra.Command, text string) error {
	if k.output != "" {
		return nil
	}
	_, err := io.WriteString(cmd.OutOrStdout(), text)
	return err
}
