// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkFlags describe a check, much as those of curl describe a request.
type checkFlags struct {
	method        string
	headers       []string // "Name: value"
	remoteAddress string
	principal     string
	domain        string
	descriptors   []string // "key=value,key=value"
	policies      []string
	key           []string
	cost          int64
}

func newExplainCommand(c *connection) *cobra.Command {
	check := &checkFlags{}
	var o output
	cmd := &cobra.Command{
		Use:   "explain [URL]",
		Short: "Show which policies apply to a request, why, and which nearly do",
		Long: `Show which policies apply to a request, why, and which nearly do.

Nothing is spent. URL is that of the request, or its path; omit it for a check that has only
a domain and descriptors, or that names policies.`,
		Example: `  kubectl weir explain -X POST https://shop.example/login -H 'X-Account: bob'
  kubectl weir explain /login --remote-address 192.0.2.1 -o json
  kubectl weir explain --domain envoy --descriptor user_id=7,tier=gold
  kubectl weir explain --policy login --key bob -n shop`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.validate(), c.validate()); err != nil {
				return err
			}
			namespace, err := c.namespace()
			if err != nil {
				return err
			}
			body, err := check.body(namespace, args)
			if err != nil {
				return err
			}
			return c.withClient(cmd.Context(), func(ctx context.Context, api *client) error {
				x := &explanation{}
				text, err := api.call(ctx, http.MethodPost, "/v1/explain", body, x)
				if err != nil {
					return err
				}
				return o.write(cmd.OutOrStdout(), answer{body: text, text: x.write})
			})
		},
	}
	check.addFlags(cmd.Flags())
	o.addFlag(cmd)
	return cmd
}

func (f *checkFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&f.method, "request", "X", "", "method of the request (default GET with a URL)")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of the request, such as 'X-Account: bob'; repeat it for more")
	flags.StringVar(&f.remoteAddress, "remote-address", "", "client address")
	flags.StringVar(&f.principal, "principal", "", "authenticated user")
	flags.StringVar(&f.domain, "domain", "", "domain of a check by Envoy")
	flags.StringArrayVar(&f.descriptors, "descriptor", nil, `descriptor of a check by Envoy, such as user_id=7,tier=gold; quote an entry with a comma: '"a=1,2",b=3'`)
	flags.StringSliceVar(&f.policies, "policy", nil, "policy that the check names, in the Namespace of -n")
	flags.StringArrayVar(&f.key, "key", nil, "key that the check gives, once for each part")
	flags.Int64Var(&f.cost, "cost", 1, "units that the request would spend")
}

// explainedCheck is the body of the call.
type explainedCheck struct {
	Policies   []string        `json:"policies,omitempty"`
	Key        []string        `json:"key,omitempty"`
	Cost       int64           `json:"cost"`
	Attributes *explainedInput `json:"attributes,omitempty"`
}

type explainedInput struct {
	Method        string              `json:"method,omitempty"`
	Host          string              `json:"host,omitempty"`
	Path          string              `json:"path,omitempty"`
	Principal     string              `json:"principal,omitempty"`
	Headers       map[string][]string `json:"headers,omitempty"`
	RemoteAddress string              `json:"remoteAddress,omitempty"`
	Domain        string              `json:"domain,omitempty"`
	Descriptors   []descriptor        `json:"descriptors,omitempty"`
}

type descriptor struct {
	Entries []descriptorEntry `json:"entries"`
}

type descriptorEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// body returns the body of the call. The policies are in the Namespace.
func (f *checkFlags) body(namespace string, args []string) ([]byte, error) {
	if len(args) == 0 && f.domain == "" && len(f.descriptors) == 0 && len(f.policies) == 0 {
		return nil, errors.New("URL: give that of the request, or its path, --domain, --descriptor or --policy")
	}
	in := &explainedInput{Method: f.method, Principal: f.principal, RemoteAddress: f.remoteAddress, Domain: f.domain}
	if len(args) > 0 {
		if err := in.setURL(args[0]); err != nil {
			return nil, err
		}
	}
	if err := in.setHeaders(f.headers); err != nil {
		return nil, err
	}
	for _, text := range f.descriptors {
		d, err := parseDescriptor(text)
		if err != nil {
			return nil, err
		}
		in.Descriptors = append(in.Descriptors, d)
	}
	check := &explainedCheck{Key: f.key, Cost: f.cost, Attributes: in}
	for _, name := range f.policies {
		if strings.Contains(name, "/") {
			return nil, fmt.Errorf("--policy %q: must be a name without slash; set its Namespace with -n", name)
		}
		check.Policies = append(check.Policies, namespace+"/"+name)
	}
	return json.Marshal(check)
}

// setURL sets the host and the path, and the method unless it is set.
func (in *explainedInput) setURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && !strings.HasPrefix(text, "/") {
		return fmt.Errorf("URL %q: must be a URL such as https://shop.example/login, or a path such as /login", text)
	}
	in.Host, in.Path = u.Host, u.RequestURI()
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	return nil
}

// setHeaders sets the headers from lines such as "X-Account: bob". The header Host is the host.
func (in *explainedInput) setHeaders(lines []string) error {
	for _, line := range lines {
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || name == "" {
			return fmt.Errorf("-H %q: must be a name, a colon and a value, such as 'X-Account: bob'", line)
		}
		if strings.EqualFold(name, "host") {
			in.Host = value
			continue
		}
		if in.Headers == nil {
			in.Headers = map[string][]string{}
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		in.Headers[name] = append(in.Headers[name], value)
	}
	return nil
}

// parseDescriptor parses entries such as "key=value,key=value", with the quotes of CSV.
func parseDescriptor(text string) (d descriptor, err error) {
	entries, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return d, fmt.Errorf("--descriptor %q: must be entries such as user_id=7,tier=gold", text)
	}
	for _, entry := range entries {
		key, value, _ := strings.Cut(entry, "=")
		if key == "" {
			return d, fmt.Errorf("--descriptor %q: entry %q must be a key, or a key and a value such as user_id=7", text, entry)
		}
		d.Entries = append(d.Entries, descriptorEntry{Key: key, Value: value})
	}
	return d, nil
}
