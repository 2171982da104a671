// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// signin blocks an account in a network after three attempts.
const signin = "{matches: [{hosts: [shop.example], paths: [/signin]}], counting: Attempts, " +
	"key: [{type: Header, header: {name: X-Account}}, {type: RemoteAddress, remoteAddress: {ipv4PrefixLength: 24}}], " +
	"limits: [{name: burst, algorithm: SlidingLog, threshold: 3, window: 10m, blockDuration: 10m}]}"

// signIn returns the body of a check of a sign-in, as a proxy sends it.
func signIn(account, address string) string {
	return fmt.Sprintf(`{"attributes":{"host":"shop.example","path":"/signin","headers":{"x-account":%q},"remoteAddress":%q}}`, account, address)
}

// playRunbook plays the scenarios of the runbook as the operator jane. Each ends with the client admitted or denied.
func (i *installation) playRunbook(ctx SpecContext, p *plugin) {
	GinkgoHelper()
	i.policy(ctx, "signin", signin)
	i.ready(ctx, "signin")
	becomes := func(account, address string, status int) {
		GinkgoHelper()
		Eventually(i.status).WithArguments(ctx, signIn(account, address)).Should(Equal(status))
	}
	attack := func(account string) {
		GinkgoHelper()
		Expect(i.statuses(ctx, signIn(account, "192.0.2.1"), 4)).To(Equal([]int{200, 200, 200, 429}))
		Eventually(p.succeed).WithArguments(ctx, "jane", "who", account).Should(ContainSubstring("by limit burst"))
	}

	By("a blocked account")
	attack("user-42")
	_, err := p.run(ctx, "jane", "unblock", "signin", "user-42")
	Expect(err).To(MatchError(ContainSubstring("[header X-Account, client address]: give both parts")))
	Expect(p.succeed(ctx, "jane", "reset", "signin", "--part", "x-account=user-42")).To(ContainSubstring("Reset the key"))
	becomes("user-42", "192.0.2.1", http.StatusOK)

	By("a blocked network")
	Expect(p.succeed(ctx, "jane", "block", "signin", "user-43", "198.51.100.7", "--for", "1h")).To(ContainSubstring("The key is user-43 198.51.100.0/24"))
	becomes("user-43", "198.51.100.250", http.StatusTooManyRequests)

	By("a wrong block")
	Expect(p.succeed(ctx, "jane", "unblock", "signin", "user-43", "198.51.100.9")).To(ContainSubstring("Lifted the block"))
	becomes("user-43", "198.51.100.250", http.StatusOK)

	By("a flood")
	for n := range 3 {
		attack(fmt.Sprintf("flood-%d", n))
	}
	Expect(p.succeed(ctx, "jane", "unblock", "signin", "--all")).To(ContainSubstring("Blocks lifted under " + i.shop + "/signin: 3."))
	tool(ctx, p.path, append([]string{"shadow", "signin", "--for", "1h"}, p.flags...)...)
	becomes("flood-0", "192.0.2.1", http.StatusOK)
	tool(ctx, p.path, append([]string{"enforce", "signin"}, p.flags...)...)

	By("a broken edit")
	Expect(i.tryPolicy(ctx, i.shop, "signin", strings.ReplaceAll(signin, "/signin", "/sign//in"))).
		To(MatchError(ContainSubstring("spec.matches[0].paths[0]")), "the webhook rejects it")
	Expect(kubectl(ctx, "get", "ratelimitpolicy", "signin", "--namespace", i.shop, "--output=wide")).To(ContainSubstring("burst 3/10m"))
	attack("user-44")

	By("a rollout that is under way")
	kubectl(ctx, "rollout", "restart", "deployment/weir-manager", "--namespace", i.namespace)
	Expect(tool(ctx, p.path, "check", "--weir-namespace", i.namespace)).NotTo(ContainSubstring("FAILED"))
	Expect(tool(ctx, p.path, "check", "--wait", "3m", "--weir-namespace", i.namespace)).
		NotTo(Or(ContainSubstring("FAILED"), ContainSubstring("UNDER WAY")))
	rolledOut(ctx, i.namespace, "weir-manager")
	becomes("user-44", "192.0.2.1", http.StatusTooManyRequests)
	Eventually(p.succeed).WithArguments(ctx, "jane", "top", "signin").Should(MatchRegexp(`/signin +Enforce( +[1-9]\d*){4}`), "the figures stay")
}
