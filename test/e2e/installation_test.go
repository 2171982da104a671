// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	release = "weir"
	// definition belongs to the whole cluster, and all policies go with it.
	definition = "ratelimitpolicies.ratelimit.weir.dev"
)

// installation is a release of the chart with a Redis of its own, somebody who asks
// it, and a Namespace of a team that has policies.
type installation struct {
	namespace string // of the release, and of Redis
	shop      string // of the team
	url       string // of the Service
	asker     *client
}

// install installs the chart as a platform team does.
func install(ctx context.Context) *installation {
	GinkgoHelper()
	needsClusterWithoutWeir(ctx)
	i := &installation{namespace: newNamespace(ctx), shop: newNamespace(ctx)}
	DeferCleanup(i.remove, NodeTimeout(3*time.Minute))
	i.url = "http://" + i.host() + ":8080"
	kubectl(ctx, "annotate", "namespace", i.shop,
		"ratelimit.weir.dev/hosts=shop.example", "ratelimit.weir.dev/domains=edge")
	apply(ctx, i.namespace, "redis.yaml", map[string]string{"image": redisImage})
	i.asker = newClient(ctx, i.shop)
	rolledOut(ctx, i.namespace, "redis")
	i.upgrade(ctx)
	return i
}

// needsClusterWithoutWeir ends the tests before they touch anything on a cluster that
// has policies of somebody else: KUBECONFIG may name one that is in use.
func needsClusterWithoutWeir(ctx context.Context) {
	GinkgoHelper()
	Expect(kubectl(ctx, "get", "crd", definition, "--ignore-not-found", "--output=name")).
		To(BeEmpty(), "there is a Weir on this cluster, or one has left its policies: the tests would delete them")
}

// remove removes what is not in a Namespace, wherever the tests have stopped.
func (i *installation) remove(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		show(ctx, i.namespace) // while there is something to see
	}
	tool(ctx, "helm", "uninstall", release, "--namespace", i.namespace, "--ignore-not-found", "--wait", "--timeout", "120s")
	kubectl(ctx, "delete", "crd", definition, "--ignore-not-found", "--timeout=20s")
}

func (i *installation) host() string { return release + "." + i.namespace + ".svc.cluster.local" }

// upgrade installs the release with those values, or makes it so, and waits until all
// pods are ready.
func (i *installation) upgrade(ctx context.Context, values ...string) {
	GinkgoHelper()
	repository, tag, _ := strings.Cut(weirImage, ":")
	args := []string{
		"upgrade", release, root + "/charts/weir", "--install", "--namespace", i.namespace, "--wait", "--timeout", "120s",
		"--set", "image.repository=" + repository, "--set", "image.tag=" + tag,
		"--set", "redis.url=redis://redis." + i.namespace + ".svc.cluster.local:6379",
	}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	tool(ctx, "helm", args...)
}

// policy applies a policy of the team. The spec is YAML on one line.
func (i *installation) policy(ctx context.Context, name, spec string) {
	GinkgoHelper()
	Expect(i.tryPolicy(ctx, i.shop, name, spec)).To(Succeed())
}

func (i *installation) tryPolicy(ctx context.Context, namespace, name, spec string) error {
	manifest := fmt.Sprintf("{apiVersion: ratelimit.weir.dev/v1alpha1, kind: RateLimitPolicy, metadata: {name: %s}, spec: %s}", name, spec)
	_, err := tryTool(ctx, manifest, "kubectl", "apply", "--namespace", namespace, "--filename", "-")
	return err
}

// hourly is the spec of a policy of so many requests an hour.
func hourly(threshold int) string {
	return fmt.Sprintf("{limits: [{name: hourly, algorithm: FixedWindow, threshold: %d, window: 1h}]}", threshold)
}

// ready waits until every replica enforces the policy as it was last applied.
func (i *installation) ready(ctx context.Context, name string) {
	GinkgoHelper()
	kubectl(ctx, "wait", "--namespace", i.shop, "--for=condition=Ready", "--timeout=60s", "ratelimitpolicy/"+name)
}

// condition returns the status and the reason of a condition of the policy.
func (i *installation) condition(ctx context.Context, name, kind string) func() (string, error) {
	return func() (string, error) {
		return tryKubectl(ctx, "get", "ratelimitpolicy", name, "--namespace", i.shop, "--output",
			fmt.Sprintf(`jsonpath={.status.conditions[?(@.type=="%s")].status}/{.status.conditions[?(@.type=="%[1]s")].reason}`, kind))
	}
}

// ask is the body of a check of the team's policy.
func (i *installation) ask(policy, key string) string {
	return fmt.Sprintf(`{"policies":["%s/%s"],"key":%q}`, i.shop, policy, key)
}

// status asks and returns the status of the answer; 0 if there is none.
func (i *installation) status(ctx context.Context, body string) int {
	got, err := i.asker.check(ctx, i.url, body)
	if err != nil {
		return 0
	}
	return got.Status
}

// statuses asks so often.
func (i *installation) statuses(ctx context.Context, body string, times int) []int {
	all := make([]int, times)
	for n := range all {
		all[n] = i.status(ctx, body)
	}
	return all
}

// pods are the addresses of the pods that decide.
func (i *installation) pods(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Fields(kubectl(ctx, "get", "pods", "--namespace", i.namespace,
		"--selector=ratelimit.weir.dev/decisions=true", "--field-selector=status.phase=Running",
		"--output=jsonpath={range .items[?(@.status.containerStatuses[0].ready)]}{.status.podIP} {end}"))
}

// thresholds are what each pod that decides enforces of the policy's first limit.
func (i *installation) thresholds(ctx context.Context, policy string) []int {
	GinkgoHelper()
	pods := i.pods(ctx)
	all := make([]int, len(pods))
	for n, pod := range pods {
		got, err := i.asker.check(ctx, "http://"+pod+":8080", strings.TrimSuffix(i.ask(policy, "peeker"), "}")+`,"peek":true}`)
		Expect(err).NotTo(HaveOccurred())
		var body struct{ Limits []struct{ Threshold int } }
		Expect(json.Unmarshal([]byte(got.Body), &body)).To(Succeed(), got.Body)
		if len(body.Limits) > 0 {
			all[n] = body.Limits[0].Threshold
		}
	}
	return all
}

// leader is the pod that holds the Lease.
func (i *installation) leader(ctx context.Context) string {
	holder, err := tryKubectl(ctx, "get", "lease", "weir-manager", "--namespace", i.namespace, "--output=jsonpath={.spec.holderIdentity}")
	if err != nil {
		return ""
	}
	return holder[:max(0, strings.LastIndexByte(holder, '-'))] // without the number of the process
}

// kill ends a pod without giving it time for anything.
func (i *installation) kill(ctx context.Context, pod string) {
	GinkgoHelper()
	kubectl(ctx, "delete", "pod", pod, "--namespace", i.namespace, "--grace-period=0", "--force")
}

// during asks at a steady rate for as long as something else is done, and some time
// more, and says what became of it.
func (i *installation) during(ctx context.Context, body string, rate int, length time.Duration, do func()) load {
	GinkgoHelper()
	var got load
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, err = i.asker.load(ctx, i.url, body, rate, length)
	}()
	do()
	Expect(done).NotTo(BeClosed(), "the load has to last longer")
	Eventually(done).WithContext(ctx).WithTimeout(length + 30*time.Second).Should(BeClosed())
	Expect(err).NotTo(HaveOccurred())
	return got
}

// forward makes a port of a Service one of this machine until the spec ends, and
// returns its address.
func forward(namespace, service string, port int) string {
	GinkgoHelper()
	command := exec.Command("kubectl", "port-forward", "--namespace", namespace, "service/"+service, ":"+strconv.Itoa(port))
	out, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed
	})
	// Forwarding from 127.0.0.1:40123 -> 8080
	line, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	fields := strings.Fields(line)
	Expect(len(fields)).To(BeNumerically(">", 2), line)
	return fields[2]
}

// call sends a request from this machine.
func call(ctx context.Context, method, url, token, body string) (int, string) {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(text)
}
