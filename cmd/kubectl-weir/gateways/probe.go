// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gateways

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/reject"
)

// probeTimeout bounds the request to the URL. It is longer than the default timeout of Envoy Gateway for a check.
const probeTimeout = 15 * time.Second

// probeFlags are the flags of probe.
type probeFlags struct {
	method   string
	headers  []string // "Name: value"
	targets  []string
	all      bool
	insecure bool
}

// ProbeResult is what the URL answered.
type ProbeResult struct {
	URL string `json:"url"`
	// Wired is whether Weir answered.
	Wired bool `json:"wired"`
	// Status is the status of the answer, and Location where it leads, if anywhere.
	Status   int    `json:"status"`
	Location string `json:"location,omitempty"`
	// Report is what Weir saw.
	Report *httptypes.ProbeReport `json:"report,omitempty"`
	// MissingTargets are the values of --target that Weir did not see.
	MissingTargets []string `json:"missingTargets,omitempty"`

	method string // by which policies were matched
}

func newProbeCommand(c *connect.Connection) *cobra.Command {
	f := &probeFlags{}
	var o offline.Output
	cmd := &cobra.Command{
		Use:   "probe URL",
		Short: "Find out whether requests to a URL reach Weir, and what Weir sees of them",
		Long: `Find out whether requests to a URL reach Weir, and what Weir sees of them.

Sends one HEAD request with a one-time code, which a proxy passes to Weir by ext_authz or
forward-auth. Weir answers it itself with 403, so the request reaches no application and spends
nothing. Without such an answer the URL is not wired. The command needs the rights of
kubectl weir unblock in the Namespace whose policies it names.`,
		Example: `  kubectl weir probe https://shop.example/login -n shop
  kubectl weir probe http://192.0.2.1/login -H 'Host: shop.example' -X POST --target HTTPRoute/shop/shop -n shop`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := f.request(args[0])
			if err := errors.Join(err, o.Validate(), c.Validate(), f.validate()); err != nil {
				return err
			}
			return probe(c, cmd, f, request, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.method, "request", "X", http.MethodGet, "method by which policies are matched; the request itself is HEAD")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of the request, such as 'Host: shop.example'; repeat it for more")
	flags.StringArrayVar(&f.targets, "target", nil, "Gateway or route that Weir must see, such as HTTPRoute/shop/shop; repeat it for more")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "name the policies of all Namespaces")
	flags.BoolVar(&f.insecure, "insecure", false, "do not verify the certificate of the URL")
	o.AddFlag(cmd)
	return cmd
}

// validate rejects invalid flags.
func (f *probeFlags) validate() error {
	var errs []error
	for _, target := range f.targets {
		_, err := plan.ParseTarget(target)
		errs = append(errs, reject.If(err != nil, "--target %q: %w", target, err))
	}
	return errors.Join(append(errs, reject.If(f.method == "" || strings.ToUpper(f.method) != f.method,
		"-X %q: must be a method in capital letters", f.method))...)
}

// request returns the request for the URL, without the code.
func (f *probeFlags) request(text string) (*http.Request, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("URL %q: must be a URL such as https://shop.example/login", text)
	}
	request, err := http.NewRequest(http.MethodHead, text, http.NoBody) //nolint:noctx // the caller adds the context
	if err != nil {
		return nil, fmt.Errorf("URL %q: %w", text, err)
	}
	for _, line := range f.headers {
		name, value, found := strings.Cut(line, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !found || name == "" {
			return nil, fmt.Errorf("-H %q: must be a name and a value, such as 'X-Account: bob'", line)
		}
		if strings.EqualFold(name, "Host") {
			request.Host = value
			continue
		}
		request.Header.Add(name, value)
	}
	return request, nil
}

// probe gets a code, sends the request with it and writes the result.
func probe(c *connect.Connection, cmd *cobra.Command, f *probeFlags, request *http.Request, o offline.Output) error {
	body := httptypes.ProbeRequest{Method: f.method}
	if !f.all {
		var err error
		if body.Namespace, err = c.Namespace(); err != nil {
			return err
		}
	}
	return c.WithClient(cmd.Context(), func(ctx context.Context, api *connect.Client) error {
		code := &httptypes.ProbeCode{}
		if _, err := api.Post(ctx, "/v1/probes", body, code); err != nil {
			return err
		}
		result, err := f.send(ctx, request, code)
		if err != nil {
			return err
		}
		if err := o.WriteValue(cmd.OutOrStdout(), result, result.write); err != nil {
			return err
		}
		return result.err()
	})
}

// send sends the request with the code. It follows no redirect: another URL would be probed.
func (f *probeFlags) send(ctx context.Context, request *http.Request, code *httptypes.ProbeCode) (*ProbeResult, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: f.insecure, MinVersion: tls.VersionTLS12} //nolint:gosec // by --insecure
	client := &http.Client{
		Transport: transport, Timeout: probeTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request = request.WithContext(ctx)
	request.Header.Set(code.Header, code.Code)
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the URL does not answer: %w", err)
	}
	_ = response.Body.Close() // HEAD has none
	result := &ProbeResult{URL: request.URL.Redacted(), Status: response.StatusCode, Location: message.Printable(response.Header.Get("Location")), method: f.method}
	header := response.Header.Get(code.AnswerHeader)
	if header == "" {
		return result, nil
	}
	report := &httptypes.ProbeReport{}
	if err := json.Unmarshal([]byte(header), report); err != nil {
		return nil, fmt.Errorf("the answer in %s is not one of Weir: %w", code.AnswerHeader, err)
	}
	result.Wired, result.Report = true, report
	for _, want := range f.targets {
		if !report.HasTarget(want) {
			result.MissingTargets = append(result.MissingTargets, want)
		}
	}
	return result, nil
}

// err returns the failure of the command, or nil.
func (r *ProbeResult) err() error {
	switch {
	case !r.Wired:
		return errors.New("not wired: Weir did not answer this request")
	case r.Report.Problem != "":
		return fmt.Errorf("wired, but Weir cannot decide these requests: %s", message.Printable(r.Report.Problem))
	case len(r.MissingTargets) > 0:
		return fmt.Errorf("wired, but Weir did not see %s", strings.Join(r.MissingTargets, ", "))
	}
	return nil
}

// write writes the result for people.
func (r *ProbeResult) write(w io.Writer) error {
	p := connect.NewTable(w)
	status := fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status))
	if r.Location != "" {
		status += ", to " + r.Location
	}
	if !r.Wired {
		p.Row("Wired:", "no")
		p.Row("The URL answered:", status)
		return p.Flush()
	}
	report := r.Report
	orNone := func(text string) string { return cmp.Or(message.Printable(text), "-") }
	p.Row("Wired:", "yes, by "+orNone(report.Frontend))
	p.Row("Replica:", orNone(report.Replica))
	p.Row("Targets:", orNone(withMore(report.Targets, report.OtherTargets)))
	p.Row("Request:", strings.Join([]string{orNone(report.Method), orNone(report.Host), orNone(report.Path)}, " "))
	if report.Domain != "" {
		p.Row("Domain:", orNone(report.Domain))
	}
	p.Row("Client address:", orNone(report.RemoteAddress))
	p.Row("Principal:", orNone(report.Principal))
	p.Row("Policies for "+r.method+":", orNone(withMore(report.Policies, report.OtherPolicies)))
	return p.Flush()
}

// withMore returns the names, and how many others there are.
func withMore(names []string, others int) string {
	text := strings.Join(names, ", ")
	if others == 0 {
		return text
	}
	if text != "" {
		text += " "
	}
	return text + fmt.Sprintf("(and %d others)", others)
}
