// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// kubectl runs kubectl, which must succeed, and returns what it printed.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return tool(ctx, "kubectl", args...)
}

// tryKubectl is kubectl for Eventually.
func tryKubectl(ctx context.Context, args ...string) (string, error) {
	return tryTool(ctx, "", "kubectl", args...)
}

// tool runs kubectl or helm, which must succeed, and returns what it printed.
func tool(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	out, err := tryTool(ctx, "", name, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// apply applies a file of testdata to a namespace, with ${name} replaced.
func apply(ctx context.Context, namespace, file string, values map[string]string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	Expect(err).NotTo(HaveOccurred())
	manifest := os.Expand(string(text), func(name string) string {
		value, found := values[name]
		Expect(found).To(BeTrue(), "%s: no value for ${%s}", file, name)
		return value
	})
	_, err = tryTool(ctx, manifest, "kubectl", "apply", "--namespace", namespace, "--filename", "-")
	Expect(err).NotTo(HaveOccurred())
}

// tryTool runs a program with its input. What it says is in the error, and in the
// output of the spec.
func tryTool(ctx context.Context, input, name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Stdin = strings.NewReader(input)
	command.Stdout, command.Stderr = &out, &complaint
	err := command.Run()
	GinkgoWriter.Printf("$ %s %s\n%s%s", name, strings.Join(args, " "), &out, &complaint)
	if err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, &complaint)
	}
	return out.String(), nil
}

// newNamespace makes a namespace for one spec, which refuses pods that ask for
// more than they need. If the spec fails, what was in it is shown.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	name := "e2e-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	kubectl(ctx, "create", "namespace", name)
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // the context of a clean-up is its own
		if CurrentSpecReport().Failed() {
			show(ctx, name)
		}
		kubectl(ctx, "delete", "namespace", name, "--wait=false", "--ignore-not-found")
	}, NodeTimeout(time.Minute))
	kubectl(ctx, "label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
	return name
}

// show adds to the report what helps to see why a spec failed.
func show(ctx context.Context, namespace string) {
	for _, args := range [][]string{
		{"get", "all", "--output=wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"describe", "pods"},
	} {
		out, err := tryKubectl(ctx, append(args, "--namespace", namespace)...)
		AddReportEntry("kubectl "+strings.Join(args, " "), fmt.Sprint(out, err))
	}
	pods, _ := tryKubectl(ctx, "get", "pods", "--namespace", namespace, "--output=name")
	for pod := range strings.FieldsSeq(pods) {
		out, err := tryKubectl(ctx, "logs", pod, "--namespace", namespace, "--all-containers", "--tail=100")
		AddReportEntry("logs of "+pod, fmt.Sprint(out, err))
	}
}

// rolledOut waits until all pods of a Deployment are ready.
func rolledOut(ctx context.Context, namespace, deployment string) {
	GinkgoHelper()
	kubectl(ctx, "rollout", "status", "deployment/"+deployment, "--namespace", namespace, "--timeout=60s")
}

// client asks from a pod.
type client struct{ namespace string }

// answer is what came back.
type answer struct {
	Status  int         `json:"status"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

// load is what became of requests at a steady rate.
type load struct {
	Sent     int            `json:"sent"`
	Statuses map[string]int `json:"statuses"`
	Errors   map[string]int `json:"errors"`
	P99      float64        `json:"p99Millis"`
}

// newClient starts a pod to ask from.
func newClient(ctx context.Context, namespace string) *client {
	GinkgoHelper()
	apply(ctx, namespace, "client.yaml", map[string]string{"image": clientImage})
	rolledOut(ctx, namespace, "client")
	return &client{namespace: namespace}
}

// run runs the program in the pod; test/e2e/client says what it can do.
func (c *client) run(ctx context.Context, result any, args ...string) error {
	out, err := tryKubectl(ctx, append([]string{
		"exec", "deployment/client", "--namespace", c.namespace, "--", "/client",
	}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), result)
}

// check asks whether a request may pass.
func (c *client) check(ctx context.Context, url, body string) (got answer, err error) {
	err = c.run(ctx, &got, "http", "-data", body, url+"/v1/check")
	return got, err
}

// get fetches a page.
func (c *client) get(ctx context.Context, url string) (got answer, err error) {
	err = c.run(ctx, &got, "http", "-method", http.MethodGet, url)
	return got, err
}

// load asks at a steady rate, and says what became of it once it is over.
func (c *client) load(ctx context.Context, url, body string, rate int, duration time.Duration) (got load, err error) {
	err = c.run(ctx, &got, "load", "-data", body, "-rate", strconv.Itoa(rate), "-duration", duration.String(), url+"/v1/check")
	return got, err
}
