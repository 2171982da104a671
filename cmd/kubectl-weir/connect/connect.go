// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/reject"
)

// CallTimeout bounds one call of Weir.
const CallTimeout = 30 * time.Second

// AsFailed returns the error of a command whose arguments are valid, nil for nil. All other errors are of usage.
func AsFailed(cause error) error { return offline.ExitWith(1, cause) }

// Connection selects a Weir: in the cluster of the kubeconfig, or at an address.
type Connection struct {
	Kube          *genericclioptions.ConfigFlags
	WeirNamespace string
	account       string
	Address       string
	tokenFile     string
	caFile        string
}

// NewConnection returns a connection whose flags have their defaults.
func NewConnection() *Connection {
	return &Connection{Kube: genericclioptions.NewConfigFlags(true)}
}

// AddFlags adds the flags of the connection.
func (c *Connection) AddFlags(flags *pflag.FlagSet) {
	c.Kube.AddFlags(flags)
	flags.StringVar(&c.WeirNamespace, "weir-namespace", "weir-system", "Namespace in which Weir runs")
	flags.StringVar(&c.account, "account", "", "ServiceAccount in --weir-namespace whose token authorizes the call (default: the first of the chart value access that permits it)")
	flags.StringVar(&c.Address, "address", "", "URL of the operator port or the HTTP port, such as http://127.0.0.1:8083, instead of a pod of the cluster; needs --token-file")
	flags.StringVar(&c.tokenFile, "token-file", "", "file with the token for the call, instead of one of a ServiceAccount")
	flags.StringVar(&c.caFile, "ca-file", "", "PEM file with the CAs that verify --address (default: system roots)")
}

// Validate rejects contradicting flags.
func (c *Connection) Validate() error {
	return errors.Join(
		reject.If(c.account != "" && c.tokenFile != "", "--account, --token-file: choose one"),
		reject.If(c.account != "" && c.Address != "", "--account, --address: choose one; --address takes --token-file"),
		reject.If(c.caFile != "" && c.Address == "", "--ca-file: needs --address"),
		validateAddress(c.Address))
}

// validateAddress rejects an address that would send the token in plain text to another machine. An empty one is valid.
func validateAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return nil
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("--address %q: must be a URL such as http://127.0.0.1:8083 or https://weir.example:8083", address)
	case u.Scheme == "http" && !httpapi.IsLoopback(u.Hostname()):
		return fmt.Errorf("--address %q: would send the token in plain text; use https, or forward the port to this machine", address)
	}
	return nil
}

// Namespace returns the Namespace of the policy.
func (c *Connection) Namespace() (string, error) {
	namespace, _, err := c.Kube.ToRawKubeConfigLoader().Namespace()
	return namespace, reject.Wrap("--namespace", err)
}

// WithClient calls do with a client that has a token. It closes the connection afterwards. Its
// errors are failures, unless a flag is missing.
func (c *Connection) WithClient(ctx context.Context, do func(ctx context.Context, api *Client) error) error {
	if c.Address != "" && c.tokenFile == "" {
		return errors.New("--address: needs --token-file")
	}
	return c.with(ctx, true, do)
}

// WithoutToken calls do with a client for calls that need no token.
func (c *Connection) WithoutToken(ctx context.Context, do func(ctx context.Context, api *Client) error) error {
	return c.with(ctx, false, do)
}

func (c *Connection) with(ctx context.Context, token bool, do func(ctx context.Context, api *Client) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slow := time.AfterFunc(progressAfter, func() {
		if offline.IsTerminal(os.Stderr) {
			_, _ = fmt.Fprintln(os.Stderr, "Connecting to Weir...")
		}
	})
	api, err := c.connect(ctx, token)
	slow.Stop()
	if err == nil {
		err = do(ctx, api)
	}
	return AsFailed(err)
}

// connect returns a client. A port that it forwards is closed when ctx ends.
func (c *Connection) connect(ctx context.Context, withToken bool) (*Client, error) {
	api := &Client{HTTP: &http.Client{Timeout: CallTimeout}, user: localUser()}
	if withToken && c.tokenFile != "" {
		text, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		if api.token = strings.TrimSpace(string(text)); api.token == "" {
			return nil, fmt.Errorf("--token-file %s: is empty", c.tokenFile)
		}
	}
	if c.Address == "" {
		return api, c.connectToCluster(ctx, api, withToken && c.tokenFile == "")
	}
	api.URL, api.Hint = strings.TrimSuffix(c.Address, "/"), "--address "+c.Address
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	api.HTTP.Transport = transport
	return api, nil
}

// transport returns the transport to --address.
func (c *Connection) transport() (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.caFile == "" {
		return transport, nil
	}
	pem, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca-file %s: has no certificate", c.caFile)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// localUser returns the name of the user on this machine, "" if unknown.
func localUser() string {
	current, err := user.Current()
	if err != nil {
		return ""
	}
	return current.Username
}
