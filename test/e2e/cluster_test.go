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
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// kubectl runs kubectl and returns its output. It fails the spec on an error.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return tool(ctx, "kubectl", args...)
}

// tryKubectl is kubectl that returns the error, for Eventually.
func tryKubectl(ctx context.Context, args ...string) (string, error) {
	return tryTool(ctx, "", "kubectl", args...)
}

// tool runs kubectl or helm and returns its output. It fails the spec on an error.
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

// tryTool runs a program with the given input. Its standard error is part of the returned
// error and of the spec's output.
func tryTool(ctx context.Context, input, name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	command := testenv.CommandContext(ctx, name, args...)
	command.Stdin = strings.NewReader(input)
	command.Stdout, command.Stderr = &out, &complaint
	err := command.Run()
	GinkgoWriter.Printf("$ %s %s\n%s%s", name, strings.Join(args, " "), &out, &complaint)
	if err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, &complaint)
	}
	return out.String(), nil
}

// newNamespace creates a namespace for one spec, with a name of its own.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return createNamespace(ctx, "e2e-"+strconv.FormatInt(time.Now().UnixNano(), 36))
}

// createNamespace creates a namespace with the restricted Pod Security Standard for one spec.
// If the spec fails, its objects and logs are reported.
func createNamespace(ctx context.Context, name string) string {
	GinkgoHelper()
	kubectl(ctx, "create", "namespace", name)
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // the context of a clean-up is its own
		if CurrentSpecReport().Failed() {
			show(ctx, name)
		}
		kubectl(ctx, "delete", "namespace", name, "--wait=false", "--ignore-not-found")
	}, NodeTimeout(5*time.Minute))
	kubectl(ctx, "label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
	return name
}

// show adds the objects and logs of a namespace to the report of a failed spec.
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
	kubectl(ctx, "rollout", "status", "deployment/"+deployment, "--namespace", namespace, "--timeout=120s")
}

// client sends requests from a pod.
type client struct{ namespace string }

// answer is a response.
type answer struct {
	Status  int         `json:"status"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
	Millis  float64     `json:"millis"`
}

// load is the result of requests at a steady rate.
type load struct {
	Sent     int            `json:"sent"`
	Statuses map[string]int `json:"statuses"`
	Errors   map[string]int `json:"errors"`
	P50      float64        `json:"p50Millis"`
	P99      float64        `json:"p99Millis"`
}

// newClient starts the client pod.
func newClient(ctx context.Context, namespace string) *client {
	GinkgoHelper()
	apply(ctx, namespace, "client.yaml", map[string]string{"image": clientImage})
	rolledOut(ctx, namespace, "client")
	return &client{namespace: namespace}
}

// run runs test/e2e/client in the pod and decodes its output.
func (c *client) run(ctx context.Context, result any, args ...string) error {
	out, err := tryKubectl(ctx, append([]string{
		"exec", "deployment/client", "--namespace", c.namespace, "--", "/client",
	}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), result)
}

// check sends a check.
func (c *client) check(ctx context.Context, url, body string) (got answer, err error) {
	err = c.run(ctx, &got, "http", "-data", body, url+"/v1/check")
	return got, err
}

// get fetches a page.
func (c *client) get(ctx context.Context, url string) (got answer, err error) {
	err = c.run(ctx, &got, "http", "-method", http.MethodGet, url)
	return got, err
}

// load sends requests at a steady rate and returns the result at the end.
func (c *client) load(ctx context.Context, url, body string, rate int, duration time.Duration) (got load, err error) {
	err = c.run(ctx, &got, "load", "-data", body, "-rate", strconv.Itoa(rate), "-duration", duration.String(), url+"/v1/check")
	return got, err
}
