// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// requestFor returns the request to reconcile the policy with that ID.
func requestFor(id string) reconcile.Request {
	return reconcile.Request{NamespacedName: nameOf(id)}
}

func TestInitialPassIsCompleteOnce(t *testing.T) {
	g := NewWithT(t)
	a, b, created := requestFor("shop/a"), requestFor("shop/b"), requestFor("shop/created")
	first := term{number: 1, ctx: t.Context()}
	pass := &initialPass{}
	pass.beginList(first)
	g.Expect(pass.begin(first, []reconcile.Request{a, b})).To(BeFalse())
	g.Expect(pass.done(first, created)).To(BeFalse(), "it is not in the list")
	g.Expect(pass.done(first, a)).To(BeFalse())
	g.Expect(pass.done(first, a)).To(BeFalse(), "a second time")
	g.Expect(pass.isPending(first, a)).To(BeFalse())
	g.Expect(pass.isPending(first, b)).To(BeTrue())
	g.Expect(pass.done(first, b)).To(BeTrue())
	g.Expect(pass.done(first, b)).To(BeFalse())

	second := term{number: 2, ctx: t.Context()}
	g.Expect(pass.begin(second, []reconcile.Request{a})).To(BeFalse())
	g.Expect(pass.done(first, a)).To(BeFalse(), "processed in an earlier term")
	g.Expect(pass.isPending(second, a)).To(BeTrue())
	g.Expect(pass.done(second, a)).To(BeTrue())
	g.Expect(pass.begin(second, nil)).To(BeTrue(), "an empty list")
}

func TestInitialPassIgnoresTermsThatHaveEnded(t *testing.T) {
	g := NewWithT(t)
	ctx, end := context.WithCancel(t.Context())
	ended := term{number: 1, ctx: ctx}
	pass := &initialPass{}
	pass.begin(ended, []reconcile.Request{requestFor("shop/a")})
	end()
	g.Expect(pass.done(ended, requestFor("shop/a"))).To(BeFalse())
}

// A policy that the cache gets while a term lists the policies is in the list or missed.
func TestInitialPassMisses(t *testing.T) {
	g := NewWithT(t)
	listed, added := client.Object(testpolicy.Make("shop/listed").Obj()), client.Object(testpolicy.Make("shop/added").Obj())
	first, second := term{number: 1, ctx: t.Context()}, term{number: 2, ctx: t.Context()}
	pass := &initialPass{}
	g.Expect(pass.misses(first, added)).To(BeFalse(), "before the term lists them, it will find the policy")
	pass.beginList(first)
	g.Expect(pass.misses(first, listed)).To(BeTrue(), "the list may not have it")
	g.Expect(pass.isPending(first, requestFor("shop/listed"))).To(BeTrue())
	pass.begin(first, []reconcile.Request{requestFor("shop/listed")})
	g.Expect(pass.misses(first, listed)).To(BeFalse())
	g.Expect(pass.misses(first, added)).To(BeTrue())
	g.Expect(pass.isPending(first, requestFor("shop/added"))).To(BeFalse())

	pass.beginList(second)
	g.Expect(pass.misses(second, listed)).To(BeTrue(), "the list of the first term means nothing")
	g.Expect(pass.isPending(second, requestFor("shop/listed"))).To(BeTrue())
	g.Expect(pass.misses(first, added)).To(BeFalse(), "the term has ended")
}
