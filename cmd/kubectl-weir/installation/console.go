// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/offline"
)

// forwardCheckPeriod is how often console checks that its port-forward still works.
const forwardCheckPeriod = 5 * time.Second

func newConsoleCommand(c *connect.Connection) *cobra.Command {
	open := true
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the web console in a browser",
		Long: `Open the web console in a browser.

Prints a link that works once, for 30 seconds. The session has the rights of the account and lasts ten
minutes; run the command again for another one. In a cluster, the command forwards a port to a pod of
Weir until Ctrl-C. The chart value console.enabled serves the console.`,
		Example: `  kubectl weir console
  kubectl weir console --account weir-operator --open=false
  kubectl weir console --address http://127.0.0.1:8083 --token-file admin-token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Validate(); err != nil {
				return err
			}
			return c.WithClient(cmd.Context(), func(ctx context.Context, api *connect.Client) error {
				url, err := consoleURL(ctx, api)
				if err != nil {
					return err
				}
				out := cmd.OutOrStdout()
				if _, err := fmt.Fprintln(out, url); err != nil {
					return err
				}
				if open && offline.IsTerminal(out) {
					openBrowser(ctx, url)
				}
				if c.Address != "" {
					return nil // no port-forward to keep
				}
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "Forwarding a port to Weir until Ctrl-C. The link works once, for 30 seconds.")
				return waitForEnd(ctx, api, forwardCheckPeriod)
			})
		},
	}
	cmd.Flags().BoolVar(&open, "open", true, "open the link in the default browser, if standard output is a terminal")
	return cmd
}

// consoleURL returns a link that begins a session with the token of the client.
func consoleURL(ctx context.Context, c *connect.Client) (string, error) {
	var link httptypes.ConsoleLink
	_, err := c.Call(ctx, http.MethodPost, "/v1/console", nil, &link)
	if problem, ok := errors.AsType[*connect.ProblemError](err); ok && problem.Code == "NotFound" {
		return "", fmt.Errorf("%s: serves no console; set the chart value console.enabled, or the flag --console", c.Hint)
	}
	if err != nil {
		return "", err
	}
	return c.URL + link.Path, nil
}

// waitForEnd returns nil when ctx ends, or an error when Weir does not answer any more.
func waitForEnd(ctx context.Context, c *connect.Client, period time.Duration) error {
	err := wait.PollUntilContextCancel(ctx, period, false, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/healthz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := c.HTTP.Do(request)
		if err != nil {
			return false, fmt.Errorf("%s does not answer any more; run the command again: %w", c.Hint, err)
		}
		_ = response.Body.Close()
		return false, nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // Ctrl-C ends the command
	}
	return err
}

// openBrowser opens the link, if this machine has a program for it. The link is printed as well, so
// errors do not matter.
func openBrowser(ctx context.Context, url string) {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	if _, err := exec.LookPath(name); err != nil {
		return
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...) //nolint:gosec // a fixed program; the URL leads to Weir
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
