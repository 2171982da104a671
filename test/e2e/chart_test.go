// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// The tasks of a platform team and its tenants with one installation, in order.
var _ = Describe("weir installed by its chart", Ordered, func() {
	var i *installation

	BeforeAll(func(ctx SpecContext) { i = install(ctx) }, NodeTimeout(10*time.Minute))

	It("enforces a policy from kubectl apply to kubectl delete", func(ctx SpecContext) {
		i.policy(ctx, "login", "{limits: [{name: burst, algorithm: SlidingLog, threshold: 3, window: 10m}]}")
		i.ready(ctx, "login")
		alice := i.ask("login", "alice")
		Expect(i.statuses(ctx, alice, 5)).To(Equal([]int{200, 200, 200, 429, 429}))
		By("an edit that keeps the counters")
		i.policy(ctx, "login", "{limits: [{name: burst, algorithm: SlidingLog, threshold: 4, window: 10m}]}")
		i.ready(ctx, "login")
		Expect(i.statuses(ctx, alice, 2)).To(Equal([]int{200, 429}))
		By("a deletion")
		kubectl(ctx, "delete", "ratelimitpolicy", "login", "--namespace", i.shop, "--timeout=120s")
		Eventually(i.status).WithArguments(ctx, alice).Should(Equal(http.StatusNotFound))
	}, NodeTimeout(5*time.Minute))

	It("selects the keys of a group, without a new plan", func(ctx SpecContext) {
		i.policy(ctx, "tiers", "{key: [{type: Principal, principal: {}}], limits: [{name: burst, algorithm: FixedWindow, threshold: 1, window: 10m}], "+
			"overrides: [{name: gold, groups: [gold], limits: [{name: burst, threshold: 3}]}]}")
		i.ready(ctx, "tiers")
		acme := i.ask("tiers", "acme")
		Expect(i.statuses(ctx, acme, 2)).To(Equal([]int{200, 429}))
		By("importing the key")
		weir, keys := newPlugin(i), filepath.Join(GinkgoT().TempDir(), "keys.txt")
		importKeys := func(list string) {
			GinkgoHelper()
			Expect(os.WriteFile(keys, []byte(list), 0o600)).To(Succeed())
			tool(ctx, weir.path, append([]string{"groups", "import", keys, "--group", "gold"}, weir.flags...)...)
		}
		importKeys("acme\nglobex\n")
		Expect(i.statuses(ctx, acme, 3)).To(Equal([]int{200, 200, 429}), "its spent unit stays")
		Expect(i.statuses(ctx, i.ask("tiers", "initech"), 2)).To(Equal([]int{200, 429}))
		By("removing it")
		importKeys("globex\n")
		Expect(i.podStatuses(ctx, acme)).To(HaveEach(429))
		Expect(kubectl(ctx, "get", "rlkeys", "--namespace", i.shop, "--output=name")).To(Equal("ratelimitkeygroup.ratelimit.weir.dev/gold-0-of-1\n"))
		kubectl(ctx, "delete", "ratelimitkeygroups", "--all", "--namespace", i.shop, "--timeout=120s")
	}, NodeTimeout(5*time.Minute))

	It("serves Envoy over gRPC", func(ctx SpecContext) {
		i.policy(ctx, "edge", "{matches: [{domain: edge, descriptors: [{key: user}]}], key: [{type: Descriptor, descriptor: {key: user}}], "+
			"limits: [{name: burst, algorithm: SlidingLog, threshold: 2, window: 10m}]}")
		i.ready(ctx, "edge")
		var codes []string
		for range 3 {
			var got struct{ Code string }
			Expect(i.asker.run(ctx, &got, "grpc", "-domain", "edge", "-entry", "user=alice", i.host()+":8081")).To(Succeed())
			codes = append(codes, got.Code)
		}
		Expect(codes).To(Equal([]string{"OK", "OK", "OVER_LIMIT"}))
	}, NodeTimeout(5*time.Minute))

	It("counts only the failed logins that Envoy reports", func(ctx SpecContext) {
		i.policy(ctx, "logins", "{matches: [{domain: edge, descriptors: [{key: account}]}], key: [{type: Descriptor, descriptor: {key: account}}], "+
			"reservations: {maxTTL: 1m, cost: {cel: 'response.code == 401 ? 1 : 0'}}, limits: [{name: failures, algorithm: SlidingLog, threshold: 2, window: 10m}]}")
		i.ready(ctx, "logins")
		call := func(entries ...string) string {
			var got struct{ Code string }
			args := []string{"grpc", "-domain", "edge", "-entry", "account=alice"}
			for _, entry := range entries {
				args = append(args, "-entry", entry)
			}
			Expect(i.asker.run(ctx, &got, append(args, i.host()+":8081")...)).To(Succeed())
			return got.Code
		}
		var codes []string
		for n, status := range []int{200, 401, 200, 200, 401} {
			codes = append(codes, call(fmt.Sprintf("weir_reservation=login-%d", n)))
			call(fmt.Sprintf("weir_commit=login-%d", n), fmt.Sprintf("weir_response_code=%d", status))
		}
		Expect(append(codes, call("weir_reservation=login-5"))).To(Equal([]string{"OK", "OK", "OK", "OK", "OK", "OVER_LIMIT"}))
	}, NodeTimeout(5*time.Minute))

	It("enforces at every replica within a second of apply", func(ctx SpecContext) {
		pods := i.pods(ctx)
		Expect(pods).To(HaveLen(2))
		args := []string{"until", "-data", i.ask("fresh", "k")}
		for _, pod := range pods {
			args = append(args, "http://"+pod+":8080/v1/check")
		}
		var enforced struct{ UnixMillis int64 }
		done := make(chan error, 1)
		go func() { done <- i.asker.run(ctx, &enforced, args...) }()
		i.policy(ctx, "fresh", hourly(10))
		applied := time.Now().UnixMilli()
		Eventually(done).WithContext(ctx).Should(Receive(BeNil()))
		Expect(enforced.UnixMillis-applied).To(BeNumerically("<", 1000), "milliseconds")
	}, NodeTimeout(5*time.Minute))

	It("is exact across replicas", func(ctx SpecContext) {
		i.policy(ctx, "exact", hourly(100))
		i.ready(ctx, "exact")
		got, err := i.asker.load(ctx, i.url, i.ask("exact", "alice"), 200, 3*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": 100, "429": got.Sent - 100}))
	}, NodeTimeout(5*time.Minute))

	It("reports Enforced correctly while a pod is killed and replaced", func(ctx SpecContext) {
		i.policy(ctx, "truth", hourly(1))
		i.ready(ctx, "truth")
		leader := i.leader(ctx)
		for pod := range strings.FieldsSeq(kubectl(ctx, "get", "pods", "--namespace", i.namespace, "--selector=ratelimit.weir.dev/decisions=true",
			"--output=jsonpath={.items[*].metadata.name}")) {
			if pod != leader {
				i.kill(ctx, pod)
			}
		}
		i.policy(ctx, "truth", hourly(2))
		i.ready(ctx, "truth")
		Expect(i.thresholds(ctx, "truth")).To(HaveEach(2), "Enforced means every replica")
		rolledOut(ctx, i.namespace, "weir-manager")
		Expect(i.thresholds(ctx, "truth")).To(Equal([]int{2, 2}))
		Eventually(i.condition(ctx, "truth", "Enforced")).Should(Equal("True/Enforced"))
	}, NodeTimeout(5*time.Minute))

	It("fails over to another leader when the leader is killed", func(ctx SpecContext) {
		leader := i.leader(ctx)
		Expect(leader).NotTo(BeEmpty())
		i.kill(ctx, leader)
		// The Service may still select the pod for a moment.
		Eventually(i.status).WithArguments(ctx, i.ask("truth", "during")).WithTimeout(30 * time.Second).Should(BeElementOf(200, 429))
		Eventually(i.leader).WithArguments(ctx).Should(And(Not(BeEmpty()), Not(Equal(leader))))
		i.policy(ctx, "truth", hourly(3))
		i.ready(ctx, "truth")
		rolledOut(ctx, i.namespace, "weir-manager")
	}, NodeTimeout(5*time.Minute))

	It("follows the failure mode without Redis, and recovers when Redis returns empty", func(ctx SpecContext) {
		i.policy(ctx, "open", hourly(2))
		i.policy(ctx, "closed", "{failureMode: Closed, "+hourly(2)[1:])
		i.ready(ctx, "open")
		i.ready(ctx, "closed")
		Expect(i.statuses(ctx, i.ask("open", "a"), 3)).To(Equal([]int{200, 200, 429}))
		kubectl(ctx, "scale", "deployment/redis", "--namespace", i.namespace, "--replicas=0")
		Eventually(i.status).WithArguments(ctx, i.ask("closed", "a")).Should(Equal(http.StatusServiceUnavailable))
		// Not "a": a replica may still deny it from memory.
		got, err := i.asker.check(ctx, i.url, i.ask("open", "b"))
		Expect(err).NotTo(HaveOccurred())
		Expect([]any{got.Status, got.Headers.Get("Weir-Degraded")}).To(Equal([]any{200, "open"}))
		Eventually(i.condition(ctx, "open", "Programmed")).WithTimeout(time.Minute).Should(Equal("Unknown/RegistryUnreachable"))
		Expect(i.pods(ctx)).To(HaveLen(2), "no pod is unready for it")
		Expect(kubectl(ctx, "get", "pods", "--namespace", i.namespace, "--selector=ratelimit.weir.dev/decisions=true",
			"--output=jsonpath={.items[*].status.containerStatuses[0].restartCount}")).To(Equal("0 0"))

		kubectl(ctx, "scale", "deployment/redis", "--namespace", i.namespace, "--replicas=1")
		i.ready(ctx, "open")
		i.ready(ctx, "closed")
		// Each replica reaches Redis in its own time.
		Eventually(i.podStatuses).WithArguments(ctx, i.ask("closed", "b")).Should(HaveEach(BeElementOf(200, 429)))
		Expect(i.statuses(ctx, i.ask("open", "a"), 3)).To(Equal([]int{200, 200, 429}), "counted from zero")
	}, NodeTimeout(5*time.Minute))

	It("loses no decision while the API server is frozen", func(ctx SpecContext) {
		process := apiServer()
		i.policy(ctx, "frozen", hourly(1_000_000))
		i.ready(ctx, "frozen")
		got := i.during(ctx, i.ask("frozen", "a"), 50, 30*time.Second, func() {
			Eventually(func() string { return i.metrics(ctx) }).Should(ContainSubstring(`policy="frozen"`), "the load has begun")
			Expect(syscall.Kill(process, syscall.SIGSTOP)).To(Succeed())
			defer func() { Expect(syscall.Kill(process, syscall.SIGCONT)).To(Succeed()) }()
			// Longer than the lease renew deadline.
			Consistently(func() error { return syscall.Kill(process, 0) }, "15s", "1s").Should(Succeed())
		})
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": got.Sent}))
		i.policy(ctx, "frozen", hourly(2))
		i.ready(ctx, "frozen")
		Expect(i.thresholds(ctx, "frozen")).To(Equal([]int{2, 2}))
	}, NodeTimeout(5*time.Minute))

	It("fails no request during a rollout and an upgrade", func(ctx SpecContext) {
		i.policy(ctx, "rolling", hourly(500))
		i.ready(ctx, "rolling")
		got := i.during(ctx, i.ask("rolling", "a"), 50, 90*time.Second, func() {
			kubectl(ctx, "rollout", "restart", "deployment/weir-manager", "--namespace", i.namespace)
			rolledOut(ctx, i.namespace, "weir-manager")
			i.upgrade(ctx, "logLevel=debug")
		})
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": 500, "429": got.Sent - 500}))
		tool(ctx, "helm", "rollback", release, "--namespace", i.namespace, "--wait", "--timeout", "240s")
	}, NodeTimeout(5*time.Minute))

	It("misses no policy while a later release is rolled out and back", func(ctx SpecContext) {
		i.policy(ctx, "versions", hourly(500))
		i.ready(ctx, "versions")
		_, tag, _ := strings.Cut(laterImage, ":")
		got := i.during(ctx, i.ask("versions", "a"), 50, 80*time.Second, func() {
			i.upgrade(ctx, "image.tag="+tag)
			i.policy(ctx, "later", unreadable(7))
			i.ready(ctx, "later")
			Eventually(i.pods).WithArguments(ctx).Should(HaveLen(2), "the former pods are gone")
			Expect(i.thresholds(ctx, "later")).To(Equal([]int{7, 7}))
			tool(ctx, "helm", "rollback", release, "--namespace", i.namespace, "--wait", "--timeout", "240s")
			i.policy(ctx, "later", unreadable(8))
			i.ready(ctx, "later")
			Eventually(i.pods).WithArguments(ctx).Should(HaveLen(2), "the former pods are gone")
			Expect(i.thresholds(ctx, "later")).To(Equal([]int{8, 8}))
		})
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": 500, "429": got.Sent - 500}))
	}, NodeTimeout(10*time.Minute))

	It("reports a policy that a pod of the former release cannot read, also when that pod starts", func(ctx SpecContext) {
		i.policy(ctx, "both", hourly(3))
		i.policy(ctx, "later", unreadable(8))
		i.ready(ctx, "both")
		i.ready(ctx, "later")
		patch := func(ctx SpecContext, spec string) error {
			_, err := tryKubectl(ctx, "patch", "deployment/weir-manager", "--namespace", i.namespace, "--patch", spec)
			return err
		}
		const anyPodIsAvailable = `{"spec":{"minReadySeconds":0}}`
		By("one pod of the later release, which leads: the rollout waits until it is available")
		DeferCleanup(func(ctx SpecContext) {
			_ = patch(ctx, anyPodIsAvailable)
			i.upgrade(ctx)
		}, NodeTimeout(5*time.Minute))
		Expect(patch(ctx, fmt.Sprintf(`{"spec":{"minReadySeconds":500,"template":{"spec":{"containers":[{"name":"weir","image":%q}]}}}}`, laterImage))).To(Succeed())
		podsOf := func(image string) []string {
			GinkgoHelper()
			return strings.Fields(kubectl(ctx, "get", "pods", "--namespace", i.namespace, "--selector=ratelimit.weir.dev/decisions=true", "--output",
				fmt.Sprintf(`jsonpath={.items[?(@.spec.containers[0].image==%q)].metadata.name}`, image)))
		}
		Eventually(podsOf).WithArguments(laterImage).Should(HaveLen(1))
		later := podsOf(laterImage)[0]
		kubectl(ctx, "wait", "pod/"+later, "--namespace", i.namespace, "--for=condition=Ready", "--timeout=120s")
		for leader := i.leader(ctx); leader != later; leader = i.leader(ctx) {
			kubectl(ctx, "delete", "pod", leader, "--namespace", i.namespace)
		}

		By("an edit")
		i.policy(ctx, "later", unreadable(9))
		Eventually(i.condition(ctx, "later", "Enforced")).Should(Equal("False/ReplicasTooOld"))
		Eventually(i.thresholds).WithArguments(ctx, "later").Should(ContainElements(8, 9), "a former pod keeps the last plan")

		By("pods of the former release that start")
		kubectl(ctx, append([]string{"delete", "pod", "--namespace", i.namespace}, podsOf(weirImage)...)...)
		Eventually(i.thresholds).WithArguments(ctx, "later").Should(ConsistOf(0, 0, 9), "they have no last plan")
		i.ready(ctx, "both")
		Expect(i.condition(ctx, "later", "Enforced")()).To(Equal("False/ReplicasTooOld"))
		Expect(i.statuses(ctx, i.ask("both", "a"), 4)).To(Equal([]int{200, 200, 200, 429}))

		By("the end of the rollout")
		Expect(patch(ctx, anyPodIsAvailable)).To(Succeed())
		rolledOut(ctx, i.namespace, "weir-manager")
		i.ready(ctx, "later")
		Eventually(i.thresholds).WithArguments(ctx, "later").Should(Equal([]int{9, 9}))
	}, NodeTimeout(5*time.Minute))

	It("runs as separate Deployments for controllers and decisions", func(ctx SpecContext) {
		i.upgrade(ctx, "split.enabled=true")
		Expect(kubectl(ctx, "get", "deployments", "--namespace", i.namespace, "--selector=app.kubernetes.io/name=weir", "--output=name")).
			To(Equal("deployment.apps/weir-controller\ndeployment.apps/weir-decision\n"))
		i.policy(ctx, "split", hourly(2))
		i.ready(ctx, "split")
		Expect(i.statuses(ctx, i.ask("split", "a"), 3)).To(Equal([]int{200, 200, 429}))
		i.upgrade(ctx, "split.enabled=false")
		i.policy(ctx, "split", hourly(3))
		i.ready(ctx, "split")
	}, NodeTimeout(5*time.Minute))

	It("passes helm test, with the URL of Redis from a Secret", func(ctx SpecContext) {
		kubectl(ctx, "create", "secret", "generic", "redis-url", "--namespace", i.namespace,
			"--from-literal=url=redis://redis."+i.namespace+".svc.cluster.local:6379")
		i.upgrade(ctx, "redis.url=", "redis.urlFromSecret.name=redis-url", "redis.urlFromSecret.key=url")
		tool(ctx, "helm", "test", release, "--namespace", i.namespace, "--timeout", "240s")
		Expect(kubectl(ctx, "get", "ratelimitpolicies,networkpolicies,pods", "--namespace", i.namespace, "--output=name")).
			NotTo(ContainSubstring("weir-test"), "the objects of the test are deleted")
		By("reporting why a test fails")
		kubectl(ctx, "scale", "deployment/redis", "--namespace", i.namespace, "--replicas=0")
		_, err := tryTool(ctx, "", "helm", "test", release, "--namespace", i.namespace, "--timeout", "240s")
		Expect(err).To(HaveOccurred())
		Expect(kubectl(ctx, "logs", "weir-test", "--namespace", i.namespace)).To(Or(
			ContainSubstring("Redis does not answer Weir"), ContainSubstring("the policy is not in force")))
		kubectl(ctx, "scale", "deployment/redis", "--namespace", i.namespace, "--replicas=1")
		i.upgrade(ctx)
		i.policy(ctx, "tested", hourly(1))
		i.ready(ctx, "tested")
	}, NodeTimeout(5*time.Minute))

	It("rejects an invalid policy when it is applied", func(ctx SpecContext) {
		wrong := "{matches: [{hosts: [shop.example], when: nonesuch}], limits: [{name: l, algorithm: FixedWindow, threshold: 1, window: 1m}]}"
		Eventually(func() error { return i.tryPolicy(ctx, i.shop, "wrong", wrong) }).
			Should(MatchError(And(ContainSubstring("spec.matches[0].when"), ContainSubstring("undeclared reference"))))
		elsewhere := strings.ReplaceAll(strings.ReplaceAll(wrong, "shop.example", "elsewhere.example"), ", when: nonesuch", "")
		Expect(i.tryPolicy(ctx, i.shop, "elsewhere", elsewhere)).To(MatchError(ContainSubstring("spec.matches[0].hosts")))
	}, NodeTimeout(5*time.Minute))

	It("enforces no policy outside the grant of its Namespace", func(ctx SpecContext) {
		tenant := newNamespace(ctx)
		kubectl(ctx, "annotate", "namespace", tenant, "ratelimit.weir.dev/hosts=tenant.example")
		Expect(i.tryPolicy(ctx, tenant, "all", "{matches: [{hosts: [tenant.example]}], limits: [{name: l, algorithm: FixedWindow, threshold: 1, window: 1h}]}")).To(Succeed())
		body := `{"attributes":{"host":"tenant.example","path":"/"}}`
		Eventually(i.status).WithArguments(ctx, body).Should(Equal(http.StatusTooManyRequests))
		kubectl(ctx, "annotate", "namespace", tenant, "ratelimit.weir.dev/hosts-")
		Eventually(func() string {
			got, _ := i.asker.check(ctx, i.url, body)
			return got.Body
		}).WithContext(ctx).Should(ContainSubstring(`"reason":"NoPolicy"`))
		Expect(kubectl(ctx, "get", "ratelimitpolicy", "all", "--namespace", tenant, "--output",
			`jsonpath={.status.conditions[?(@.type=="Accepted")].reason}`)).To(Equal("MatchNotPermitted"))
	}, NodeTimeout(5*time.Minute))

	It("returns and changes the state of keys for callers with permission", func(ctx SpecContext) {
		i.policy(ctx, "state", hourly(1))
		i.ready(ctx, "state")
		Expect(i.statuses(ctx, i.ask("state", "a"), 2)).To(Equal([]int{200, 429}))
		allow := func(role string) {
			i.upgrade(ctx, "access[0].name=on-call", "access[0].role="+role, "access[0].namespaces={"+i.shop+"}",
				"access[0].subjects[0].kind=User", "access[0].subjects[0].name=jane")
		}
		allow("inspect")
		jane := []string{"--as=jane", "--namespace", i.namespace}
		token := strings.TrimSpace(kubectl(ctx, append([]string{"create", "token", "on-call", "--audience", "weir"}, jane...)...))
		_, err := tryKubectl(ctx, append([]string{"create", "token", release, "--audience", "weir"}, jane...)...)
		Expect(err).To(MatchError(ContainSubstring("forbidden")), "the account of the pods")
		local := "http://" + forward(i.namespace, release, 8080, "--as=jane")
		var status int
		var body string
		Eventually(func() int {
			status, body = call(ctx, http.MethodGet, local+"/v1/state?policy="+i.shop+"/state&key=a", token, "")
			return status
		}).WithContext(ctx).Should(Equal(http.StatusOK))
		Expect(body).To(ContainSubstring(`"used":1`))
		reset := func() int {
			status, body = call(ctx, http.MethodPost, local+"/v1/reset", token, `{"policy":"`+i.shop+`/state","key":"a"}`)
			return status
		}
		Expect(reset()).To(Equal(http.StatusForbidden), body)
		allow("operator")
		Eventually(reset).WithContext(ctx).Should(Equal(http.StatusOK))
		Expect(strings.TrimSpace(body)).To(Equal(`{"found":true}`))
		Expect(i.status(ctx, i.ask("state", "a"))).To(Equal(http.StatusOK))
	}, NodeTimeout(5*time.Minute))

	It("returns and changes the state of keys by kubectl weir", func(ctx SpecContext) {
		i.policy(ctx, "plugin", hourly(100))
		i.ready(ctx, "plugin")
		i.upgrade(ctx, "access[0].name=auditors", "access[0].role=inspect", "access[0].namespaces={"+i.shop+"}",
			"access[0].subjects[0].kind=User", "access[0].subjects[0].name=ann",
			"access[1].name=on-call", "access[1].role=operator", "access[1].namespaces={"+i.shop+"}",
			"access[1].subjects[0].kind=User", "access[1].subjects[0].name=jane", "console.enabled=true")
		p := newPlugin(i)
		Expect(i.status(ctx, i.ask("plugin", "a"))).To(Equal(http.StatusOK))
		Expect(p.succeed(ctx, "ann", "state", "plugin", "a")).To(And(ContainSubstring("Blocked:   no"), MatchRegexp(`hourly +1 +100 +99 `)))
		_, err := p.run(ctx, "ann", "block", "plugin", "a", "--for", "10m")
		Expect(err).To(MatchError(And(ContainSubstring("exit status 1"), ContainSubstring("of the account auditors; choose another one with --account"))))
		_, err = p.run(ctx, "bob", "state", "plugin", "a")
		Expect(err).To(MatchError(ContainSubstring("ask for the chart value access")))

		Expect(p.succeed(ctx, "jane", "block", "plugin", "a", "--for", "10m")).To(ContainSubstring("Blocked the key"))
		Eventually(i.podStatuses).WithArguments(ctx, i.ask("plugin", "a")).Should(HaveEach(http.StatusTooManyRequests))
		Expect(p.succeed(ctx, "jane", "state", "plugin", "a", "-o", "json")).To(ContainSubstring(`"blocked": true`))
		Expect(p.succeed(ctx, "jane", "unblock", "plugin", "a")).To(ContainSubstring("Lifted the block"))
		Eventually(i.podStatuses).WithArguments(ctx, i.ask("plugin", "a")).Should(HaveEach(http.StatusOK))
		Expect(p.succeed(ctx, "ann", "version")).To(MatchRegexp(`(?m)^weir \S+$`))
		Expect(p.succeed(ctx, "ann", "explain", "--policy", "plugin", "--key", "a")).To(ContainSubstring("Decision:   allowed"))
		Expect(tool(ctx, p.path, "check", "--wait", "1m", "--weir-namespace", i.namespace)).To(And(
			MatchRegexp(`(?m)^ok +webhook +.*served by \d+ pods$`), MatchRegexp(`(?m)^ok +redis +redis 7\.0`), MatchRegexp(`(?m)^ok +leader `)))
		Expect(p.succeed(ctx, "jane", "check", "--wait", "1m")).To(MatchRegexp(`(?m)^not checked +webhook `), "forbidden to her")
		Eventually(i.logs).WithContext(ctx).Should(MatchRegexp(`"msg":"Unblocked a key",.*"user":"system:serviceaccount:[^"]+:on-call","credentialID":"JTI=[^"]+","claimedUser":"jane"`))
	}, NodeTimeout(5*time.Minute))

	It("decides from slices, never exceeds the quota, and resets it", func(ctx SpecContext) {
		By("the sample")
		sample, err := os.ReadFile(root + "/config/samples/backend-capacity.yaml")
		Expect(err).NotTo(HaveOccurred())
		manifest := strings.ReplaceAll(string(sample), "namespace: shop", "namespace: "+i.shop)
		_, err = tryTool(ctx, manifest, "kubectl", "apply", "--filename", "-")
		Expect(err).NotTo(HaveOccurred())
		i.ready(ctx, "backend-capacity")
		all := func(policy string) string { return fmt.Sprintf(`{"policies":["%s/%s"]}`, i.shop, policy) } // callers share a key
		capacity := all("backend-capacity")
		got := i.during(ctx, capacity, 200, 4*time.Second, func() {
			Eventually(func() (string, error) {
				answer, err := i.asker.check(ctx, i.url, capacity)
				return answer.Body, err
			}).Should(ContainSubstring(`"fromSlice":true`))
		})
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": got.Sent}))

		By("slices of both replicas")
		pods := i.pods(ctx)
		Expect(pods).To(HaveLen(2))
		for _, pod := range pods { // connections to the Service may all lead to one of them
			got, err = i.asker.load(ctx, "http://"+pod+":8080", capacity, 200, 2*time.Second)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.Statuses).To(Equal(map[string]int{"200": got.Sent}))
		}
		Expect(i.metrics(ctx)).NotTo(ContainSubstring("weir_slice_units_total{outcome=\"Spent\"} 0\n"))

		By("a quota that is reset halfway")
		i.policy(ctx, "shared", "{slices: {maxPercent: 50, maxAge: 1s}, "+hourly(600)[1:])
		i.ready(ctx, "shared")
		shared, weir := all("shared"), newPlugin(i)
		got, err = i.asker.load(ctx, i.url, shared, 200, 2*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Statuses).To(Equal(map[string]int{"200": got.Sent}))
		weir.succeed(ctx, "jane", "reset", "shared") // she is a value of the previous spec
		got, err = i.asker.load(ctx, i.url, shared, 300, 4*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses["200"]).To(And(BeNumerically("<=", 600), BeNumerically(">", 540)), "%v", got.Statuses)
	}, NodeTimeout(5*time.Minute))

	It("raises one key by kubectl weir, until the exception ends", func(ctx SpecContext) {
		// jane, an operator, and ann are values of an earlier spec.
		i.policy(ctx, "raised", hourly(1))
		i.ready(ctx, "raised")
		p := newPlugin(i)
		Expect(i.statuses(ctx, i.ask("raised", "a"), 2)).To(Equal([]int{200, 429}))
		Expect(i.statuses(ctx, i.ask("raised", "b"), 2)).To(Equal([]int{200, 429}))
		_, err := p.run(ctx, "ann", "raise", "raised", "a", "--limit", "hourly=2", "--for", "1h")
		Expect(err).To(MatchError(ContainSubstring("forbidden")), "she may only inspect")
		_, err = p.run(ctx, "jane", "raise", "raised", "a", "--limit", "hourly=11", "--for", "1h")
		Expect(err).To(MatchError(ContainSubstring("11 is more than 10")), "by the webhook")

		Expect(p.succeed(ctx, "jane", "raise", "raised", "a", "--limit", "hourly=5", "--for", "20s", "--reason", "ticket 4711")).
			To(ContainSubstring("a has hourly threshold 5 until "))
		Expect(i.podStatuses(ctx, i.ask("raised", "a"))).To(HaveEach(http.StatusOK), "at once")
		Expect(i.podStatuses(ctx, i.ask("raised", "b"))).To(HaveEach(http.StatusTooManyRequests))
		Expect(p.succeed(ctx, "jane", "exceptions")).To(MatchRegexp(`raised +a +hourly threshold 5 .* in force +jane +ticket 4711`))
		Eventually(i.podStatuses).WithArguments(ctx, i.ask("raised", "a")).WithTimeout(30 * time.Second).Should(HaveEach(http.StatusTooManyRequests))
		Eventually(func() string { return p.succeed(ctx, "jane", "exceptions", "prune") }).WithTimeout(30 * time.Second).
			Should(ContainSubstring("Deleted " + i.shop + "/raised-"))
	}, NodeTimeout(5*time.Minute))

	It("serves the console by kubectl weir", func(ctx SpecContext) {
		// jane and the console are values of the previous spec.
		link := newPlugin(i).console("jane")
		browser := newBrowser(link)
		Expect(browser.open(ctx, link)).To(ContainSubstring("Weir"))
		Expect(browser.open(ctx, "/console/policies")).To(ContainSubstring(i.shop + "/plugin"))
		Expect(newBrowser(link).open(ctx, link)).To(ContainSubstring("used already"))
	}, NodeTimeout(5*time.Minute))

	It("serves metrics only to the allowed clients", func(ctx SpecContext) {
		Expect(i.metrics(ctx)).To(And(ContainSubstring(`policy="plugin"`), ContainSubstring("weir_build_info"),
			ContainSubstring("controller_runtime_reconcile_total")))
		rules := kubectl(ctx, "get", "networkpolicy", "weir-manager", "--namespace", i.namespace, "--output=jsonpath={.spec.ingress}")
		Expect(rules).To(And(ContainSubstring(`"ratelimit.weir.dev/client":"true"`), ContainSubstring(`"port":"grpc"`),
			ContainSubstring(`"port":"metrics"`), ContainSubstring(`"port":"webhook"`)))
	}, NodeTimeout(5*time.Minute))

	It("lets an operator play the runbook", func(ctx SpecContext) {
		i.playRunbook(ctx, newPlugin(i)) // jane is a value of an earlier spec; it restarts the pods at its end
	}, NodeTimeout(10*time.Minute))

	It("keeps policies and the CRD when it is uninstalled", func(ctx SpecContext) {
		tool(ctx, "helm", "uninstall", release, "--namespace", i.namespace, "--wait", "--timeout", "240s")
		Expect(strings.Fields(kubectlDefinitions(ctx, "get", "--output=name"))).To(HaveLen(len(definitions)))
		Expect(kubectl(ctx, "get", "ratelimitpolicies", "--namespace", i.shop, "--output=name")).To(ContainSubstring("/exact\n"))
		Expect(kubectl(ctx, "get", "lease", "weir-manager", "--namespace", i.namespace, "--output=name")).NotTo(BeEmpty())
		store := i.redis()
		Expect(store.HExists(ctx, testenv.PlansKey, i.shop+"/exact").Val()).To(BeTrue())

		By("deleting a policy and a Namespace with policies, without a finalizer in the way")
		kubectl(ctx, "delete", "ratelimitpolicy", "exact", "--namespace", i.shop, "--timeout=120s")
		kubectl(ctx, "delete", "namespace", i.shop, "--timeout=120s")
		kubectlDefinitions(ctx, "delete", "--timeout=120s")
	}, NodeTimeout(5*time.Minute))
})

// metrics returns the metrics of all pods.
func (i *installation) metrics(ctx SpecContext) string {
	var all strings.Builder
	for _, pod := range i.pods(ctx) {
		got, err := i.asker.get(ctx, "http://"+pod+":8082/metrics")
		if err == nil {
			all.WriteString(got.Body)
		}
	}
	return all.String()
}

// apiServer returns the process of the API server, for a cluster on this machine only.
func apiServer() int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "pid", "kube-apiserver"))
	if os.IsNotExist(err) {
		Skip("the API server is on another machine")
	}
	Expect(err).NotTo(HaveOccurred())
	process, err := strconv.Atoi(strings.TrimSpace(string(text)))
	Expect(err).NotTo(HaveOccurred())
	return process
}
