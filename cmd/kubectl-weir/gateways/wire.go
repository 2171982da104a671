// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gateways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/reject"
	"github.com/weir-dev/weir/internal/wiring"
)

// Commands returns the commands of this package.
func Commands(c *connect.Connection) []*cobra.Command {
	return []*cobra.Command{newWireCommand(c), newProbeCommand(c), newTargetsCommand(c)}
}

// wireKinds are the kinds that the first part of TARGET names, in the order in which they are tried.
var wireKinds = map[string][]string{
	"gateway":   {plan.TargetGateway},
	"httproute": {plan.TargetHTTPRoute},
	"grpcroute": {plan.TargetGRPCRoute},
	"route":     {plan.TargetHTTPRoute, plan.TargetGRPCRoute},
}

// wireTarget is the Gateway or route that is to ask Weir.
type wireTarget struct {
	wiring.Target

	kinds []string // the first that the cluster has
}

// wireOptions are the flags of wire.
type wireOptions struct {
	target         wireTarget
	name           string // of a new SecurityPolicy
	timeout        time.Duration
	failOpen       bool
	service        string // of Weir
	envoyNamespace string
	// set are the names of the flags that the command line sets.
	set map[string]bool
}

func newWireCommand(c *connect.Connection) *cobra.Command {
	var o offline.Output
	w := &wireOptions{}
	cmd := &cobra.Command{
		Use:   "wire KIND/NAME[/SECTION]",
		Short: "Print the manifests that make a Gateway or route of Envoy Gateway call Weir",
		Long: `Print the manifests that make a Gateway or route of Envoy Gateway call Weir.

KIND is gateway, httproute, grpcroute or route (either kind of route), in the Namespace of -n.
SECTION is a listener of the Gateway or a named rule of the route. The manifests are

  - the SecurityPolicy that sends each request to Weir; an existing one of the target is
    completed,
  - the ReferenceGrant that permits it to reference Weir's Service,
  - the label by which Weir's NetworkPolicy admits the Namespace with the pods of Envoy,
  - for a Gateway, mergeType in the SecurityPolicies of its routes, which would replace it.

The command changes nothing. What it cannot wire, and what to do there, is on standard error.`,
		Example: `  kubectl weir wire gateway/public -n infra | kubectl apply -f -
  kubectl weir wire httproute/shop -n shop --fail-open=false > weir.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			w.set = map[string]bool{}
			for _, name := range []string{"timeout", "fail-open"} {
				w.set[name] = cmd.Flags().Changed(name)
			}
			if w.target, err = parseTarget(c, args[0]); err != nil {
				return err
			}
			if err := errors.Join(o.Validate(), w.validate(c)); err != nil {
				return err
			}
			return wire(cmd.Context(), c, cmd, w, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.name, "name", "weir", "name of a new SecurityPolicy")
	duration.Var(flags, &w.timeout, "timeout", 100*time.Millisecond, "timeout of a check, 1ms to 1h")
	flags.BoolVar(&w.failOpen, "fail-open", true, "admit requests while Weir does not answer")
	flags.StringVar(&w.service, "service", "", "Service of Weir in --weir-namespace (default: the only one with a port grpc)")
	flags.StringVar(&w.envoyNamespace, "envoy-namespace", "", "Namespace with the pods of Envoy (default: where pods of the Gateway run, else envoy-gateway-system)")
	o.AddFlag(cmd)
	return cmd
}

// parseTarget returns the target that the argument names.
func parseTarget(c *connect.Connection, argument string) (t wireTarget, err error) {
	parts := strings.Split(argument, "/")
	kinds := wireKinds[strings.ToLower(parts[0])]
	if kinds == nil || len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return t, fmt.Errorf("%q: must be gateway/NAME, httproute/NAME, grpcroute/NAME or route/NAME, with an optional /SECTION; set the Namespace with -n", argument)
	}
	t = wireTarget{kinds: kinds, Target: wiring.Target{Name: parts[1]}}
	if len(parts) == 3 {
		t.Section = parts[2]
	}
	t.Namespace, err = c.Namespace()
	return t, err
}

// validate rejects invalid flags.
func (w *wireOptions) validate(c *connect.Connection) error {
	errs := []error{
		reject.If(c.Address != "", "--address: the command reads a cluster"),
		reject.If(w.timeout < time.Millisecond || w.timeout > time.Hour || w.timeout%time.Millisecond != 0,
			"--timeout %s: must be 1ms to 1h, in whole milliseconds", connect.Short(w.timeout)),
	}
	for _, name := range []struct{ flag, value string }{
		{"--name", w.name}, {"--service", w.service}, {"--envoy-namespace", w.envoyNamespace}, {"--weir-namespace", c.WeirNamespace},
	} {
		if name.value != "" {
			errs = append(errs, reject.Name(name.flag, name.value, validation.IsDNS1123Subdomain(name.value)))
		}
	}
	return errors.Join(errs...)
}

// wire writes the manifests, and notes to standard error.
func wire(ctx context.Context, c *connect.Connection, cmd *cobra.Command, w *wireOptions, o offline.Output) error {
	cluster, err := newGatewayCluster(ctx, c)
	if err != nil {
		return connect.AsFailed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, connect.CallTimeout)
	defer cancel()
	found, err := cluster.inspect(ctx, w)
	if err != nil {
		return connect.AsFailed(err)
	}
	manifests, notes, err := wiring.Make(&wiring.Options{
		Target: w.target.Target, Name: w.name, Timeout: w.timeout, FailOpen: w.failOpen, Set: w.set,
	}, &found.Facts)
	if err != nil {
		return connect.AsFailed(err)
	}
	for _, note := range append(found.notes, notes...) {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "note:", note)
	}
	return writeManifests(cmd.OutOrStdout(), manifests, o)
}

// writeManifests writes the manifests as YAML, or as a list in JSON.
func writeManifests(w io.Writer, manifests []wiring.Manifest, o offline.Output) error {
	if o != "json" {
		return wiring.Write(w, manifests)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, manifest := range manifests {
		list.Items = append(list.Items, *manifest.Object)
	}
	body, err := list.MarshalJSON()
	if err != nil {
		return err
	}
	return o.Write(w, offline.Answer{Body: body})
}
