// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/testenv"
)

const release = "weir"

// definitions are the CRDs. Deleting them deletes all objects of these kinds in the cluster.
var definitions = []string{
	"crd/ratelimitpolicies.ratelimit.weir.dev", "crd/ratelimitkeygroups.ratelimit.weir.dev", "crd/ratelimitexceptions.ratelimit.weir.dev",
}

// kubectlDefinitions runs kubectl with the CRDs as the objects of the command.
func kubectlDefinitions(ctx context.Context, command string, flags ...string) string {
	GinkgoHelper()
	return kubectl(ctx, slices.Concat([]string{command}, definitions, flags)...)
}

// installation is a release of the chart with its own Redis, a client pod, and the
// Namespace of a team with policies.
type installation struct {
	namespace string // of the release, and of Redis
	shop      string // of the team
	url       string // of the Service
	asker     *client
}

// install installs the chart like a platform team.
func install(ctx context.Context) *installation {
	GinkgoHelper()
	needsClusterWithoutWeir(ctx)
	i := &installation{namespace: newNamespace(ctx), shop: newNamespace(ctx)}
	DeferCleanup(i.remove, NodeTimeout(5*time.Minute))
	i.deploy(ctx)
	return i
}

// deploy installs the release with the values, Redis and the client in the Namespaces of the installation.
func (i *installation) deploy(ctx context.Context, values ...string) {
	GinkgoHelper()
	i.url = "http://" + i.host() + ":8080"
	kubectl(ctx, "annotate", "namespace", i.shop,
		"ratelimit.weir.dev/hosts=shop.example", "ratelimit.weir.dev/domains=edge")
	apply(ctx, i.namespace, "redis.yaml", map[string]string{"image": redisImage})
	i.asker = newClient(ctx, i.shop)
	rolledOut(ctx, i.namespace, "redis")
	i.upgrade(ctx, values...)
}

// needsClusterWithoutWeir fails the tests, before any change, on a cluster that already has
// policies: KUBECONFIG may name a cluster in use.
func needsClusterWithoutWeir(ctx context.Context) {
	GinkgoHelper()
	Expect(kubectlDefinitions(ctx, "get", "--ignore-not-found", "--output=name")).
		To(BeEmpty(), "there is a Weir on this cluster, or one has left its policies: the tests would delete them")
}

// remove removes the cluster-scoped objects, whatever state the tests ended in.
func (i *installation) remove(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		show(ctx, i.namespace) // before the objects are gone
	}
	tool(ctx, "helm", "uninstall", release, "--namespace", i.namespace, "--ignore-not-found", "--wait", "--timeout", "240s")
	kubectlDefinitions(ctx, "delete", "--ignore-not-found", "--timeout=120s")
}

func (i *installation) host() string { return release + "." + i.namespace + ".svc.cluster.local" }

// upgrade installs or upgrades the release with the values and waits until all pods are
// ready.
func (i *installation) upgrade(ctx context.Context, values ...string) {
	GinkgoHelper()
	repository, tag, _ := strings.Cut(weirImage, ":")
	args := []string{
		"upgrade", release, root + "/charts/weir", "--install", "--namespace", i.namespace, "--wait", "--timeout", "240s",
		"--set", "image.repository=" + repository, "--set", "image.tag=" + tag,
		"--set", "redis.url=redis://redis." + i.namespace + ".svc.cluster.local:6379",
		"--set", "storeTimeout=2s", // longer than a pause of a busy machine
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

// hourly returns the spec of a policy with a number of requests per hour.
func hourly(threshold int) string {
	return fmt.Sprintf("{limits: [{name: hourly, algorithm: FixedWindow, threshold: %d, window: 1h}]}", threshold)
}

// unreadable returns the same, whose plan by the later release the tested one cannot decode: see testdata/later.go.
func unreadable(threshold int) string { return "{counting: Attempts, " + hourly(threshold)[1:] }

// ready waits until every replica enforces the current generation of the policy.
func (i *installation) ready(ctx context.Context, name string) {
	GinkgoHelper()
	kubectl(ctx, "wait", "--namespace", i.shop, "--for=condition=Ready", "--timeout=120s", "ratelimitpolicy/"+name)
}

// condition returns the status and the reason of a condition of the policy.
func (i *installation) condition(ctx context.Context, name, kind string) func() (string, error) {
	return func() (string, error) {
		return tryKubectl(ctx, "get", "ratelimitpolicy", name, "--namespace", i.shop, "--output",
			fmt.Sprintf(`jsonpath={.status.conditions[?(@.type=="%s")].status}/{.status.conditions[?(@.type=="%[1]s")].reason}`, kind))
	}
}

// ask returns the body of a check of the team's policy.
func (i *installation) ask(policy, key string) string {
	return fmt.Sprintf(`{"policies":["%s/%s"],"key":%q}`, i.shop, policy, key)
}

// status sends a check and returns the status, 0 without a response.
func (i *installation) status(ctx context.Context, body string) int {
	got, err := i.asker.check(ctx, i.url, body)
	if err != nil {
		return 0
	}
	return got.Status
}

// statuses sends several checks and returns their statuses.
func (i *installation) statuses(ctx context.Context, body string, times int) []int {
	all := make([]int, times)
	for n := range all {
		all[n] = i.status(ctx, body)
	}
	return all
}

// podStatuses sends a check to each pod that makes decisions and returns the statuses.
func (i *installation) podStatuses(ctx context.Context, body string) ([]int, error) {
	GinkgoHelper()
	pods := i.pods(ctx)
	all := make([]int, len(pods))
	for n, pod := range pods {
		got, err := i.asker.check(ctx, "http://"+pod+":8080", body)
		if err != nil {
			return nil, err
		}
		all[n] = got.Status
	}
	return all, nil
}

// pods returns the addresses of the pods that make decisions.
func (i *installation) pods(ctx context.Context) []string {
	GinkgoHelper()
	return strings.Fields(kubectl(ctx, "get", "pods", "--namespace", i.namespace,
		"--selector=ratelimit.weir.dev/decisions=true", "--field-selector=status.phase=Running",
		"--output=jsonpath={range .items[?(@.status.containerStatuses[0].ready)]}{.status.podIP} {end}"))
}

// logs returns what the pods that make decisions have logged. It fails if one ends meanwhile.
func (i *installation) logs(ctx context.Context) (string, error) {
	pods, err := tryKubectl(ctx, "get", "pods", "--namespace", i.namespace, "--selector=ratelimit.weir.dev/decisions=true", "--output=name")
	var all strings.Builder
	for pod := range strings.FieldsSeq(pods) {
		log, failure := tryKubectl(ctx, "logs", pod, "--namespace", i.namespace)
		all.WriteString(log)
		err = errors.Join(err, failure)
	}
	return all.String(), err
}

// thresholds returns the threshold of the policy's first limit in each of these pods. It asks
// all of them again if one ends meanwhile.
func (i *installation) thresholds(ctx context.Context, policy string) (all []int) {
	GinkgoHelper()
	peek := strings.TrimSuffix(i.ask(policy, "peeker"), "}") + `,"peek":true}`
	Eventually(func(g Gomega) {
		pods := i.pods(ctx)
		all = make([]int, len(pods))
		for n, pod := range pods {
			got, err := i.asker.check(ctx, "http://"+pod+":8080", peek)
			g.Expect(err).NotTo(HaveOccurred())
			var body struct{ Limits []struct{ Threshold int } }
			g.Expect(json.Unmarshal([]byte(got.Body), &body)).To(Succeed(), got.Body)
			if len(body.Limits) > 0 {
				all[n] = body.Limits[0].Threshold
			}
		}
	}).WithContext(ctx).Should(Succeed())
	return all
}

// redis returns a client of the Redis of the release until the spec ends.
func (i *installation) redis() *redis.Client {
	GinkgoHelper()
	store := redis.NewClient(&redis.Options{Addr: forward(i.namespace, "redis", 6379)})
	DeferCleanup(func() { _ = store.Close() })
	return store
}

// leader returns the pod that holds the Lease.
func (i *installation) leader(ctx context.Context) string {
	holder, err := tryKubectl(ctx, "get", "lease", "weir-manager", "--namespace", i.namespace, "--output=jsonpath={.spec.holderIdentity}")
	if err != nil {
		return ""
	}
	return holder[:max(0, strings.LastIndexByte(holder, '-'))] // without the process ID
}

// kill deletes a pod without a grace period.
func (i *installation) kill(ctx context.Context, pod string) {
	GinkgoHelper()
	kubectl(ctx, "delete", "pod", pod, "--namespace", i.namespace, "--grace-period=0", "--force")
}

// during sends checks at a steady rate while another function runs and some time longer,
// and returns the result.
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

// forward forwards a local port to a port of a Service until the spec ends, and returns
// the local address. Flags are further ones of kubectl.
func forward(namespace, service string, port int, flags ...string) string {
	GinkgoHelper()
	args := append([]string{"port-forward", "--namespace", namespace, "service/" + service, ":" + strconv.Itoa(port)}, flags...)
	command := testenv.Command("kubectl", args...)
	out, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
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
