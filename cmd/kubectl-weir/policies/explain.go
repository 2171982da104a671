// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/offline"
)

// Commands returns the commands of this package.
func Commands(c *connect.Connection) []*cobra.Command {
	return []*cobra.Command{newExplainCommand(c), newDiffCommand(c), newShadowCommand(c), newEnforceCommand(c)}
}

// checkFlags describe a check, much as the flags of curl describe a request.
type checkFlags struct {
	method        string
	headers       []string // "Name: value"
	remoteAddress string
	principal     string
	claims        string // JSON
	domain        string
	targets       []string // "HTTPRoute/shop/checkout"
	descriptors   []string // "key=value,key=value"
	policies      []string
	key           []string
	cost          int64
}

func newExplainCommand(c *connect.Connection) *cobra.Command {
	check := &checkFlags{}
	var o offline.Output
	cmd := &cobra.Command{
		Use:   "explain [URL]",
		Short: "Show which policies apply to a request, why, and which nearly do",
		Long: `Show which policies apply to a request, why, and which nearly do.

Nothing is spent. URL is the URL of the request with its query, or its path; omit it for a check that has only
a domain and descriptors, or that names policies.`,
		Example: `  kubectl weir explain -X POST https://shop.example/login -H 'X-Account: bob'
  kubectl weir explain /login --remote-address 192.0.2.1 -o json
  kubectl weir explain --domain envoy --descriptor user_id=7,tier=gold
  kubectl weir explain --policy login --key bob -n shop`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.Validate(), c.Validate()); err != nil {
				return err
			}
			namespace, err := c.Namespace()
			if err != nil {
				return err
			}
			body, err := check.body(namespace, args)
			if err != nil {
				return err
			}
			return c.WithClient(cmd.Context(), func(ctx context.Context, api *connect.Client) error {
				x := &explanation{}
				text, err := api.Call(ctx, http.MethodPost, "/v1/explain", body, x)
				if err != nil {
					return err
				}
				return o.Write(cmd.OutOrStdout(), offline.Answer{Body: text, Text: x.write})
			})
		},
	}
	check.addFlags(cmd.Flags())
	o.AddFlag(cmd)
	return cmd
}

func (f *checkFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&f.method, "request", "X", "", "method of the request (default GET with a URL)")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of the request, such as 'X-Account: bob'; repeat it for more")
	flags.StringVar(&f.remoteAddress, "remote-address", "", "client address")
	flags.StringVar(&f.principal, "principal", "", "authenticated user")
	flags.StringVar(&f.claims, "claims", "", `claims of verified tokens as JSON, such as '{"jwt": {"tenant": "acme"}}'`)
	flags.StringArrayVar(&f.targets, "target", nil, "Gateway or route that the request comes through, such as HTTPRoute/shop/checkout; repeat it for more")
	flags.StringVar(&f.domain, "domain", "", "domain of a check by Envoy")
	flags.StringArrayVar(&f.descriptors, "descriptor", nil, `descriptor of a check by Envoy, such as user_id=7,tier=gold; quote an entry with a comma: '"a=1,2",b=3'`)
	flags.StringSliceVar(&f.policies, "policy", nil, "policy that the check names, in the Namespace of -n")
	flags.StringArrayVar(&f.key, "key", nil, "key that the check gives, once for each part")
	flags.Int64Var(&f.cost, "cost", 1, "units that the request would spend")
}

// body returns the body of the call. The policies are in the Namespace.
func (f *checkFlags) body(namespace string, args []string) ([]byte, error) {
	if len(args) == 0 && f.domain == "" && len(f.targets)+len(f.descriptors) == 0 && len(f.policies) == 0 {
		return nil, errors.New("URL: give the URL of the request, or its path, --target, --domain, --descriptor or --policy")
	}
	check := &httptypes.Check{Key: f.key, Cost: f.cost}
	if err := f.setAttributes(&check.Attributes, args); err != nil {
		return nil, err
	}
	for _, name := range f.policies {
		if strings.Contains(name, "/") {
			return nil, fmt.Errorf("--policy %q: must be a name without slash; set its Namespace with -n", name)
		}
		check.Policies = append(check.Policies, namespace+"/"+name)
	}
	return json.Marshal(check)
}

// setAttributes sets the facts of the request from the flags and the URL, if one is given.
func (f *checkFlags) setAttributes(a *httptypes.Attributes, args []string) error {
	*a = httptypes.Attributes{Method: f.method, Principal: f.principal, RemoteAddress: f.remoteAddress, Targets: f.targets, Domain: f.domain}
	if len(args) > 0 {
		if err := a.SetURL(args[0]); err != nil {
			return fmt.Errorf("URL %q: %w", args[0], err)
		}
		a.Method = cmp.Or(a.Method, http.MethodGet)
	}
	for _, line := range f.headers {
		if err := a.AddHeader(line); err != nil {
			return fmt.Errorf("-H %q: %w", line, err)
		}
	}
	if err := a.SetClaims(f.claims); err != nil {
		return fmt.Errorf("--claims: %w", err)
	}
	for _, text := range f.descriptors {
		if err := a.AddDescriptor(text); err != nil {
			return fmt.Errorf("--descriptor %q: %w", text, err)
		}
	}
	return nil
}
