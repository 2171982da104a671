// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const day = 24 * time.Hour

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newRotatorAt(c *clock) *Rotator {
	return NewRotator(Options{Names: []string{"weir-webhook.weir-system.svc"}, Configuration: "weir", Now: c.read})
}

// renewed renews the contents, then encodes and parses them like the Secret does.
func renewed(t *testing.T, r *Rotator, c contents, trusted bool) contents {
	t.Helper()
	g := NewWithT(t)
	next, err := r.renew(c, trusted)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := next.encode()
	g.Expect(err).NotTo(HaveOccurred())
	got := parseContents(data)
	g.Expect(got.signer).NotTo(BeNil())
	g.Expect(got.serving).NotTo(BeNil())
	return got
}

// start is when the tests issue the first certificate.
var start = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

func TestCertificateIsValidForItsNamesOnly(t *testing.T) {
	g := NewWithT(t)
	r := newRotatorAt(&clock{start})
	first := renewed(t, r, contents{}, false)
	g.Expect(first.verify(r.options.Names, start)).To(Succeed())
	g.Expect(first.verify([]string{"else"}, start)).NotTo(Succeed())
}

func TestCertificateIsRenewedAfterTwoThirdsOfItsLifetime(t *testing.T) {
	g := NewWithT(t)
	at := &clock{start}
	r := newRotatorAt(at)
	first := renewed(t, r, contents{}, false)
	at.now = start.Add(59 * day)
	g.Expect(renewed(t, r, first, true).serving.Leaf).To(Equal(first.serving.Leaf), "too early")
	at.now = start.Add(61 * day)
	second := renewed(t, r, first, true)
	g.Expect(second.serving.Leaf).NotTo(Equal(first.serving.Leaf))
	g.Expect(second.cas).To(Equal(first.cas))
}

func TestValidCertificateStaysUntilTheCAsAreTrusted(t *testing.T) {
	g := NewWithT(t)
	at := &clock{start}
	r := newRotatorAt(at)
	first := renewed(t, r, contents{}, false)
	at.now = start.Add(61 * day)
	g.Expect(renewed(t, r, first, false).serving.Leaf).To(Equal(first.serving.Leaf))
}

func TestExpiredCertificateIsRenewedInAnyCase(t *testing.T) {
	g := NewWithT(t)
	at := &clock{start}
	r := newRotatorAt(at)
	first := renewed(t, r, contents{}, false)
	at.now = start.Add(91 * day)
	g.Expect(renewed(t, r, first, false).verify(r.options.Names, at.now)).To(Succeed())
}

func TestNewCAIssuesOnceItIsTrusted(t *testing.T) {
	g := NewWithT(t)
	at := &clock{start}
	r := newRotatorAt(at)
	first := renewed(t, r, contents{}, false)
	end := first.cas[0].NotAfter

	at.now = end.Add(-100 * day)
	current := renewed(t, r, first, true) // the certificate has expired by now
	changed := renewed(t, r, current, true)
	g.Expect(changed.cas).To(HaveLen(2))
	g.Expect(changed.cas[1]).To(Equal(first.cas[0]))
	changed = renewed(t, r, changed, true)
	g.Expect(changed.isIssuedByNewestCA()).To(BeTrue())

	at.now = end
	g.Expect(renewed(t, r, changed, true).cas).To(HaveLen(1), "an expired CA is removed")
}

// Three years, with replicas that serve and an API server that trusts what the Secret
// held one sync ago: every handshake succeeds.
func TestNoHandshakeFailsWhileCertificatesChange(t *testing.T) {
	g := NewWithT(t)
	at := &clock{start}
	r := newRotatorAt(at)
	shown := renewed(t, r, contents{}, false)
	trusted, held := shown, shown
	certificates, cas := 0, 0
	for end := at.now.Add(3 * 365 * day); at.now.Before(end); at.now = at.now.Add(6 * time.Hour) {
		next, err := r.renew(held, string(trusted.bundle()) == string(held.bundle()))
		g.Expect(err).NotTo(HaveOccurred())
		if next.serving != held.serving {
			certificates++
		}
		if !next.cas[0].Equal(held.cas[0]) {
			cas++
		}
		for _, c := range []contents{shown, held, next} {
			shows := contents{cas: trusted.cas, serving: c.serving}
			g.Expect(shows.verify(r.options.Names, at.now)).To(Succeed(), "at %v", at.now)
		}
		trusted, shown = held, held
		held = next
	}
	g.Expect(certificates).To(BeNumerically("~", 3*365/60, 6))
	g.Expect(cas).To(Equal(4))
}

func TestUnusableContentsAreReplaced(t *testing.T) {
	at := &clock{start}
	r := newRotatorAt(at)
	good, err := renewed(t, r, contents{}, false).encode()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	other, err := renewed(t, r, contents{}, false).encode()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	tests := map[string]func(data map[string][]byte){
		"nothing":                  func(data map[string][]byte) { clear(data) },
		"garbage":                  func(data map[string][]byte) { clear(data); data[caEntry] = []byte("x") },
		"no CA":                    func(data map[string][]byte) { delete(data, caEntry) },
		"no CA key":                func(data map[string][]byte) { delete(data, caKeyEntry) },
		"the key of another CA":    func(data map[string][]byte) { data[caKeyEntry] = other[caKeyEntry] },
		"another CA":               func(data map[string][]byte) { data[caEntry] = other[caEntry] },
		"a certificate of another": func(data map[string][]byte) { data[certificateEntry] = other[certificateEntry] },
		"another's certificate": func(data map[string][]byte) {
			data[certificateEntry], data[keyEntry] = other[certificateEntry], other[keyEntry]
		},
		"a certificate as CA": func(data map[string][]byte) { data[caEntry] = data[certificateEntry] },
	}
	for name, corrupt := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data := maps.Clone(good)
			corrupt(data)
			repaired := renewed(t, r, parseContents(data), true)
			g.Expect(repaired.verify(r.options.Names, at.now)).To(Succeed())
			g.Expect(renewed(t, r, repaired, true).verify(r.options.Names, at.now)).To(Succeed())
		})
	}
}

func TestNewNamesGetANewCertificate(t *testing.T) {
	g := NewWithT(t)
	at := &clock{start}
	r := newRotatorAt(at)
	before := renewed(t, r, contents{}, false)
	r.options.Names = []string{"other.weir-system.svc", "127.0.0.1"}
	after := renewed(t, r, before, false)
	g.Expect(after.verify(r.options.Names, at.now)).To(Succeed())
	g.Expect(after.cas).To(Equal(before.cas))
}
