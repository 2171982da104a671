// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/validate"
	"github.com/weir-dev/weir/internal/wiring"
)

// NewConvert returns the command convert of the program.
func NewConvert(program string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "convert",
		Short:   "Convert the configuration of another rate limiter into policies",
		Example: fmt.Sprintf("  %s convert ingress-nginx ingresses/ --replicas 3 > policies.yaml", program),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConvertIngressNginx(program), newConvertEnvoyRatelimit(program), newConvertLimitador(program), newConvertKuadrant(program),
		newConvertEnvoyGateway(program))
	return usageErrors(cmd)
}

// converter are the arguments of one conversion.
type converter struct {
	namespace    string
	allowPartial bool
	reads        string // what the limits are in
	convert      func(ctx context.Context, files []convert.File, namespace string) (result, error)
}

// result is what a conversion returns.
type result struct {
	policies  []*v1alpha1.RateLimitPolicy
	manifests []wiring.Manifest // by which a proxy asks Weir
	notes     []convert.Note
}

// policiesOnly returns the result of a conversion without manifests.
func policiesOnly(policies []*v1alpha1.RateLimitPolicy, notes []convert.Note, err error) (result, error) {
	return result{policies: policies, notes: notes}, err
}

// sharedHelp ends the help of all conversions.
const sharedHelp = `

Writes the policies to standard output. Standard error gets a note for every difference.
- reads standard input.

If a limit cannot be converted, the command writes no policies and exits with
status 3, unless --allow-partial is set. Exit codes: 0 success, 1 an invalid
configuration or one without limits, 2 invalid arguments, 3 limits that cannot be
converted.`

// command completes the command of a conversion.
func (c *converter) command(cmd *cobra.Command) *cobra.Command {
	cmd.Long = cmd.Short + "." + cmd.Long + sharedHelp
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) }
	addNamespaceFlag(cmd, &c.namespace)
	cmd.Flags().BoolVar(&c.allowPartial, "allow-partial", false, "convert the other limits if some cannot be converted")
	return usageErrors(cmd)
}

// commandOfService completes the command of a conversion from a rate limit service.
func (c *converter) commandOfService(
	do func(context.Context, []convert.File, convert.Options) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error), cmd *cobra.Command,
) *cobra.Command {
	var lateCharges bool
	c.convert = func(ctx context.Context, files []convert.File, namespace string) (result, error) {
		return policiesOnly(do(ctx, files, convert.Options{Namespace: namespace, LateCharges: lateCharges}))
	}
	cmd.Flags().BoolVar(&lateCharges, "late-charges", false,
		"spend 2 and more hits whatever the limits admit, for proxies that send hits after the response; without effect on 0 and 1")
	return c.command(cmd)
}

func newConvertEnvoyRatelimit(program string) *cobra.Command {
	c := &converter{reads: "a configuration with domain and descriptors"}
	return c.commandOfService(convert.EnvoyRatelimit, &cobra.Command{
		Use:     "envoy-ratelimit PATH...",
		Short:   "Convert configurations of envoyproxy/ratelimit",
		Long:    " Every limit becomes a policy. The files may\nalso be ConfigMaps with configurations.",
		Example: fmt.Sprintf("  %s convert envoy-ratelimit config.yaml | kubectl apply -f -", program),
		Args:    cobra.MinimumNArgs(1),
	})
}

func newConvertLimitador(program string) *cobra.Command {
	c := &converter{reads: "a list of limits with namespace, max_value and seconds"}
	return c.commandOfService(convert.Limitador, &cobra.Command{
		Use:     "limitador PATH...",
		Short:   "Convert limits files of Limitador",
		Long:    " Every limit becomes a policy. The files may also be\nConfigMaps with limits, or resources of the kind Limitador.",
		Example: fmt.Sprintf("  %s convert limitador limits.yaml -n shop > policies.yaml", program),
		Args:    cobra.MinimumNArgs(1),
	})
}

func newConvertKuadrant(program string) *cobra.Command {
	var byMatches bool
	c := &converter{reads: "RateLimitPolicies of the API group kuadrant.io", convert: func(ctx context.Context, files []convert.File, namespace string) (result, error) {
		return policiesOnly(convert.Kuadrant(ctx, files, convert.KuadrantOptions{Namespace: namespace, ByMatches: byMatches}))
	}}
	cmd := c.command(&cobra.Command{
		Use:   "kuadrant PATH...",
		Short: "Convert RateLimitPolicies of Kuadrant with their routes",
		Long: ` The files must also have the HTTPRoutes
and GRPCRoutes that the policies target or that are attached to their Gateways, and
all Gateways of these routes. Every limit becomes a policy for each of its routes,
in the Namespace of the route, with the route in targetRefs.`,
		Example: fmt.Sprintf("  kubectl get ratelimitpolicies.kuadrant.io,tokenratelimitpolicies.kuadrant.io,httproutes,grpcroutes,gateways -A -o yaml | %s convert kuadrant -", program),
		Args:    cobra.MinimumNArgs(1),
	})
	cmd.Flags().BoolVar(&byMatches, "by-matches", false,
		"select requests by the hosts, paths, methods and headers of the routes in place of targetRefs, for proxies whose checks do not name the route")
	return cmd
}

func newConvertIngressNginx(program string) *cobra.Command {
	var replicas int64
	c := &converter{reads: "Ingresses with annotations nginx.ingress.kubernetes.io/limit-*", convert: func(ctx context.Context, files []convert.File, namespace string) (result, error) {
		return policiesOnly(convert.IngressNginx(ctx, files, convert.IngressNginxOptions{Namespace: namespace, Replicas: replicas}))
	}}
	cmd := c.command(&cobra.Command{
		Use:   "ingress-nginx PATH...",
		Short: "Convert the rate limits in annotations of ingress-nginx",
		Long: ` Every Ingress with limits becomes a
policy. The files should have all Ingresses of the controller, with their times of
creation: where an Ingress applies depends on the others and on which is older.

Each pod of ingress-nginx counts on its own. --replicas multiplies the limits.`,
		Example: fmt.Sprintf("  kubectl get ingresses -A -o yaml | %s convert ingress-nginx - --replicas 3 > policies.yaml", program),
		Args:    cobra.MinimumNArgs(1),
	})
	addReplicasFlag(cmd, &replicas, "number of pods of the controller")
	return cmd
}

// addReplicasFlag adds the flag for the number of pods that count on their own.
func addReplicasFlag(cmd *cobra.Command, replicas *int64, usage string) {
	cmd.Flags().Int64Var(replicas, "replicas", 1, usage)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *replicas < 1 || *replicas > 1000 {
			return ExitWith(exitUsage, fmt.Errorf("--replicas %d: must be 1..1000", *replicas))
		}
		return nil
	}
}

func newConvertEnvoyGateway(program string) *cobra.Command {
	var o convert.EnvoyGatewayOptions
	c := &converter{reads: "BackendTrafficPolicies with rate limits", convert: func(ctx context.Context, files []convert.File, namespace string) (r result, err error) {
		own := o
		own.Namespace = namespace
		r.policies, r.manifests, r.notes, err = convert.EnvoyGateway(ctx, files, own)
		return r, err
	}}
	cmd := c.command(&cobra.Command{
		Use:   "envoy-gateway PATH...",
		Short: "Convert the rate limits of Envoy Gateway's BackendTrafficPolicies",
		Long: ` The files must also
have all BackendTrafficPolicies, HTTPRoutes and GRPCRoutes of the Gateways, and the
Gateways. Every rule becomes a policy for each of its routes, in the Namespace of the
route, with the route in targetRefs; a shared rule becomes one policy. The manifests
that "kubectl weir wire" prints for these Gateways and routes follow. SecurityPolicies
among the files are completed.

Each pod of Envoy counts local limits on its own. --replicas multiplies them.`,
		Example: fmt.Sprintf("  kubectl get backendtrafficpolicies,securitypolicies.gateway.envoyproxy.io,httproutes,grpcroutes,gateways -A -o yaml | %s convert envoy-gateway - > weir.yaml", program),
		Args:    cobra.MinimumNArgs(1),
	})
	addReplicasFlag(cmd, &o.Replicas, "number of pods of Envoy, for local limits")
	cmd.Flags().StringVar(&o.WeirNamespace, "weir-namespace", "weir-system", "Namespace of Weir")
	cmd.Flags().StringVar(&o.Service, "service", "weir", "Service of Weir in --weir-namespace")
	cmd.Flags().StringVar(&o.EnvoyNamespace, "envoy-namespace", wiring.EnvoyNamespace, "Namespace with the pods of Envoy")
	return cmd
}

func (c *converter) run(cmd *cobra.Command, args []string) error {
	sources, err := validate.Load(args, cmd.InOrStdin())
	if err != nil {
		return ExitWith(exitUsage, err)
	}
	files := make([]convert.File, len(sources))
	for i, source := range sources {
		files[i] = convert.File{Name: source.Name, Data: source.Data}
	}
	got, err := c.convert(cmd.Context(), files, c.namespace)
	if err != nil {
		return ExitWith(exitFindings, err)
	}
	for _, n := range got.notes {
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), n); err != nil {
			return err
		}
	}
	if err := c.judgeResult(&got, strings.Join(args, ", ")); err != nil {
		return err
	}
	return got.write(cmd.OutOrStdout())
}

// judgeResult returns an error if the result of the named files is not to be written.
func (c *converter) judgeResult(got *result, names string) error {
	lost := countLosses(got.notes)
	switch {
	case lost > 0 && !c.allowPartial:
		return ExitWith(exitPartial, fmt.Errorf("%s: %d limits cannot be converted; --allow-partial converts the others", names, lost))
	case len(got.policies) == 0 && lost > 0:
		return ExitWith(exitFindings, fmt.Errorf("%s: none of the %d limits can be converted", names, lost))
	case len(got.policies) == 0:
		return ExitWith(exitFindings, fmt.Errorf("%s: found no limits to convert; the command reads %s", names, c.reads))
	}
	return nil
}

// write writes the policies, and the manifests after them.
func (r *result) write(w io.Writer) error {
	if err := convert.Write(w, r.policies); err != nil || len(r.manifests) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w, "---"); err != nil {
		return err
	}
	return wiring.Write(w, r.manifests)
}

func countLosses(notes []convert.Note) (lost int) {
	for _, n := range notes {
		if n.Loss {
			lost++
		}
	}
	return lost
}
