// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/policies"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/reject"
)

// Commands returns the commands of this package.
func Commands(c *connect.Connection) []*cobra.Command {
	return []*cobra.Command{newGroupsCommand(c)}
}

// shownChanges is how many changed keys are shown.
const shownChanges = 20

func newGroupsCommand(c *connect.Connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List groups of keys, and import them from files",
		Example: `  kubectl weir groups list -n shop
  kubectl weir groups import tenants.csv --column tenant --group gold -n shop`,
		Long: `List groups of keys, and import them from files.

Overrides of policies select the keys by the name of the group. The commands use your own
rights on RateLimitKeyGroups.`,
	}
	cmd.AddCommand(newGroupsListCommand(c), newGroupsDiffCommand(c), newGroupsImportCommand(c))
	return cmd
}

func newGroupsListCommand(c *connect.Connection) *cobra.Command {
	var o offline.Output
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the groups of a Namespace",
		Example: "  kubectl weir groups list -n shop",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			groups, err := keyGroupsOf(c)
			if err != nil {
				return err
			}
			answer, err := groups.listed(cmd.Context())
			if err != nil {
				return connect.AsFailed(err)
			}
			return o.Write(cmd.OutOrStdout(), answer)
		},
	}
	o.AddFlag(cmd)
	return cmd
}

// importFlags are the flags of diff and import.
type importFlags struct {
	group, column string
	shards        int
}

func (f *importFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.group, "group", "", "name of the group (required)")
	flags.StringVar(&f.column, "column", "", "column of a CSV file that has the keys, as its first line names it (default: the only column)")
	flags.IntVar(&f.shards, "shards", 0, "number of objects, 1 to "+strconv.Itoa(maxShards)+" (default: as before; at first one for 500 keys)")
}

func (f *importFlags) validate(shardsSet bool) error {
	if f.group == "" {
		return errors.New("--group: is required")
	}
	return errors.Join(
		reject.Name("--group", f.group, validation.IsDNS1123Label(f.group)),
		reject.If(shardsSet && (f.shards < 1 || f.shards > maxShards), "--shards %d: must be 1 to %d", f.shards, maxShards))
}

// changeOf compares the file with the objects of the cluster.
func (f *importFlags) changeOf(cmd *cobra.Command, c *connect.Connection, path string) (*keyGroups, *groupChange, error) {
	if err := f.validate(cmd.Flags().Changed("shards")); err != nil {
		return nil, nil, err
	}
	groups, err := keyGroupsOf(c)
	if err != nil {
		return nil, nil, err
	}
	file, err := readKeys(path, f.column, cmd.InOrStdin())
	if err != nil {
		return nil, nil, connect.AsFailed(err)
	}
	if file.duplicates > 0 {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%d duplicate keys are ignored.\n", file.duplicates)
	}
	all, _, err := groups.list(cmd.Context(), "")
	if err != nil {
		return nil, nil, connect.AsFailed(err)
	}
	change, err := changeOf(groups.namespace, f.group, file.keys, all, f.shards)
	if err != nil {
		return nil, nil, connect.AsFailed(err)
	}
	if change.foreign > 0 {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "The group also has %d keys in objects that no import made; they stay.\n", change.foreign)
	}
	return groups, change, nil
}

func newGroupsDiffCommand(c *connect.Connection) *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Compare the keys of a file with the keys of a group",
		Long: `Compare the keys of a file with the keys of a group.

Shows what kubectl weir groups import would change.

Exit codes, as of kubectl diff: 0 no difference, 1 differences, 2 invalid arguments,
3 a failure.`,
		Example: "  kubectl weir groups diff tenants.csv --column tenant --group gold -n shop",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, change, err := f.changeOf(cmd, c, args[0])
			if failed, ok := errors.AsType[*offline.ExitError](err); ok {
				return &offline.ExitError{Code: policies.ExitDiffFailed, Err: failed}
			}
			if err != nil {
				return err
			}
			if err := change.writeKeys(cmd.OutOrStdout()); err != nil {
				return err
			}
			if !change.isEmpty() {
				return &offline.ExitError{Code: policies.ExitDifferent}
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

func newGroupsImportCommand(c *connect.Connection) *cobra.Command {
	f := &importFlags{}
	var dryRun bool
	guard := &removalGuard{}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a group have the keys of a file",
		Long: `Make a group have the keys of a file, and no others that an import added.

The file has a key a line, or is CSV; - is standard input. Each key is placed by its hash into
one of several RateLimitKeyGroups, so that a later import writes only the objects whose keys have
changed. They are written by server-side apply. Objects of the group that no import made
stay as they are.

A file that lacks many keys of the group may be incomplete. If more keys would be removed than
--max-removed permits, the command asks, or fails without a terminal. A dry run does neither.

Returns when every replica has loaded the keys.`,
		Example: "  kubectl weir groups import tenants.csv --column tenant --group gold -n shop\n  kubectl weir groups import keys.txt --group gold --dry-run -n shop",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := guard.validate(); err != nil {
				return err
			}
			groups, change, err := f.changeOf(cmd, c, args[0])
			if err != nil {
				return err
			}
			if err := change.writeKeys(cmd.OutOrStdout()); err != nil {
				return err
			}
			if !dryRun {
				if err := guard.check(cmd.InOrStdin(), cmd.ErrOrStderr(), args[0], change); err != nil {
					return connect.AsFailed(err)
				}
			}
			if err := groups.make(cmd.Context(), change, dryRun); err != nil {
				return connect.AsFailed(err)
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), change.summary(dryRun)); err != nil || dryRun {
				return err
			}
			return connect.AsFailed(groups.await(cmd.Context(), cmd.ErrOrStderr(), change))
		},
	}
	f.add(cmd)
	guard.add(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "let the API server judge the objects and store none")
	return cmd
}

// listed returns the list of groups: text, and JSON for programs.
func (k *keyGroups) listed(ctx context.Context) (offline.Answer, error) {
	all, _, err := k.list(ctx, "")
	if err != nil {
		return offline.Answer{}, err
	}
	type group struct {
		Group   string `json:"group"`
		Keys    int    `json:"keys"`
		Objects int    `json:"objects"`
		Ready   int    `json:"readyObjects"`
	}
	byName, distinct := map[string]*group{}, map[string]map[string]struct{}{}
	for i := range all {
		name := all[i].Spec.Group
		if byName[name] == nil {
			byName[name], distinct[name] = &group{Group: name}, map[string]struct{}{}
		}
		g := byName[name]
		g.Objects++
		if isLoaded(&all[i]) {
			g.Ready++
		}
		for _, key := range all[i].Spec.Keys {
			distinct[name][key] = struct{}{}
		}
		g.Keys = len(distinct[name])
	}
	groups := make([]group, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		groups = append(groups, *byName[name])
	}
	body, err := json.Marshal(map[string]any{"namespace": k.namespace, "groups": groups})
	return offline.Answer{Body: body, Text: func(w io.Writer) error {
		if len(groups) == 0 {
			_, err := fmt.Fprintf(w, "No RateLimitKeyGroup in Namespace %s.\n", k.namespace)
			return err
		}
		t := connect.NewTable(w)
		t.Heading("GROUP", "KEYS", "OBJECTS", "READY")
		for _, g := range groups {
			t.Row(g.Group, strconv.Itoa(g.Keys), strconv.Itoa(g.Objects), fmt.Sprintf("%d/%d", g.Ready, g.Objects))
		}
		return t.Flush()
	}}, err
}

// isLoaded reports whether every replica has loaded this generation.
func isLoaded(g *v1alpha1.RateLimitKeyGroup) bool {
	return g.Status.ObservedGeneration == g.Generation && meta.IsStatusConditionTrue(g.Status.Conditions, v1alpha1.ConditionReady)
}

// writeKeys writes the first keys that are added and removed.
func (c *groupChange) writeKeys(w io.Writer) error {
	var out strings.Builder
	for _, changed := range []struct {
		mark string
		keys []string
	}{{"+", c.added}, {"-", c.removed}} {
		for _, key := range changed.keys[:min(len(changed.keys), shownChanges)] {
			fmt.Fprintf(&out, "%s %s\n", changed.mark, strings.Trim(strconv.Quote(key), `"`))
		}
		if more := len(changed.keys) - shownChanges; more > 0 {
			fmt.Fprintf(&out, "%s %d more\n", changed.mark, more)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (c *groupChange) summary(dryRun bool) string {
	text := fmt.Sprintf("%d keys added, %d removed; %d of %d objects applied, %d deleted",
		len(c.added), len(c.removed), len(c.apply), len(c.apply)+c.unchanged, len(c.remove))
	if dryRun {
		return text + " (dry run)"
	}
	return text
}
