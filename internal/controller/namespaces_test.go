// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/compile"
)

func TestNamespacesInclude(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces      Namespaces
		shop, elsewhere bool
	}{
		"all":      {Namespaces{}, true, true},
		"watched":  {Namespaces{Watched: []string{"bank", "shop"}}, true, false},
		"excluded": {Namespaces{Excluded: []string{"bank", "shop"}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.namespaces.Include("shop")).To(Equal(tc.shop))
			g.Expect(tc.namespaces.Include("elsewhere")).To(Equal(tc.elsewhere))
		})
	}
}

func TestGrantTrackerNoticesChanges(t *testing.T) {
	g := NewWithT(t)
	tracker := newGrantTracker(1)
	granted := func(host string) compile.Grant {
		return compile.GrantOf(map[string]string{compile.HostsAnnotation: host})
	}
	tracker.observe("shop", granted("a"))
	tracker.observe("shop", granted("a"))
	g.Expect(tracker.changed).NotTo(Receive(), "the first read and equal ones change nothing")
	tracker.observe("shop", granted("b"))
	g.Expect(tracker.changed).To(Receive(Equal("shop")))
	tracker.observe("shop", granted("a"))
	g.Expect(tracker.changed).To(Receive(Equal("shop")), "back")

	tracker.observe("shop", granted("b"))
	tracker.observe("bank", granted("a"))
	tracker.observe("bank", granted("b")) // has no room
	g.Expect(tracker.changed).To(Receive(Equal("shop")))
	g.Expect(tracker.changed).NotTo(Receive())
	tracker.observe("bank", granted("b"))
	g.Expect(tracker.changed).To(Receive(Equal("bank")), "the next read notices it again")

	(*grantTracker)(nil).observe("shop", granted("a"))
}
