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

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newRotatorAt(c *clock) *Rotator {
	return NewRotator(Options{Names: []string{"weir-webhook.weir-system.svc"}, Configuration: "weir", Now: c.read})
}

// renewed renews and passes the result through the Secret's encoding.
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

func TestRenewal(t *testing.T) {
	g := NewWithT(t)
	at := &clock{time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	r := newRotatorAt(at)
	first := renewed(t, r, contents{}, false)
	g.Expect(first.verify(r.options.Names, at.now)).To(Succeed())
	g.Expect(first.verify([]string{"else"}, at.now)).NotTo(Succeed())

	at.now = at.now.Add(59 * day)
	g.Expect(renewed(t, r, first, true).serving.Leaf).To(Equal(first.serving.Leaf), "less than two thirds have passed")
	at.now = at.now.Add(2 * day)
	g.Expect(renewed(t, r, first, false).serving.Leaf).To(Equal(first.serving.Leaf), "in good order, while nobody is told of it")
	second := renewed(t, r, first, true)
	g.Expect(second.serving.Leaf).NotTo(Equal(first.serving.Leaf))
	g.Expect(second.cas).To(Equal(first.cas))

	at.now = at.now.Add(91 * day)
	third := renewed(t, r, second, false)
	g.Expect(third.verify(r.options.Names, at.now)).To(Succeed(), "what has ended is renewed in any case")

	at.now = first.cas[0].NotAfter.Add(-100 * day)
	third = renewed(t, r, third, true) // the certificate may have ended as well
	changed := renewed(t, r, third, true)
	g.Expect(changed.cas).To(HaveLen(2))
	g.Expect(changed.cas[1]).To(Equal(first.cas[0]))
	changed = renewed(t, r, changed, true)
	g.Expect(changed.isIssuedByNewestCA()).To(BeTrue(), "once it is trusted, the new authority issues")

	at.now = first.cas[0].NotAfter
	g.Expect(renewed(t, r, changed, true).cas).To(HaveLen(1), "an authority that has ended is forgotten")
}

// Three years, with replicas that show what the Secret held a look ago and an API
// server that trusts what it was told a look ago: every handshake is good.
func TestNoHandshakeFailsWhileCertificatesChange(t *testing.T) {
	g := NewWithT(t)
	at := &clock{time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	r := newRotatorAt(at)
	shown := renewed(t, r, contents{}, false)
	told, held := shown, shown
	certificates, authorities := 0, 0
	for end := at.now.Add(3 * 365 * day); at.now.Before(end); at.now = at.now.Add(6 * time.Hour) {
		next, err := r.renew(held, string(told.bundle()) == string(held.bundle()))
		g.Expect(err).NotTo(HaveOccurred())
		if next.serving != held.serving {
			certificates++
		}
		if !next.cas[0].Equal(held.cas[0]) {
			authorities++
		}
		for _, c := range []contents{shown, held, next} {
			shows := contents{cas: told.cas, serving: c.serving}
			g.Expect(shows.verify(r.options.Names, at.now)).To(Succeed(), "at %v", at.now)
		}
		told, shown, held = held, held, next
	}
	g.Expect(certificates).To(BeNumerically("~", 3*365/60, 6))
	g.Expect(authorities).To(Equal(4))
}

func TestWhatCannotBeUsedIsMadeAnew(t *testing.T) {
	at := &clock{time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	r := newRotatorAt(at)
	good, err := renewed(t, r, contents{}, false).encode()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	other, err := renewed(t, r, contents{}, false).encode()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	tests := map[string]func(data map[string][]byte){
		"nothing":                  func(data map[string][]byte) { clear(data) },
		"garbage":                  func(data map[string][]byte) { clear(data); data[caEntry] = []byte("x") },
		"no authority":             func(data map[string][]byte) { delete(data, caEntry) },
		"no key of the authority":  func(data map[string][]byte) { delete(data, caKeyEntry) },
		"the key of another":       func(data map[string][]byte) { data[caKeyEntry] = other[caKeyEntry] },
		"another authority":        func(data map[string][]byte) { data[caEntry] = other[caEntry] },
		"a certificate of another": func(data map[string][]byte) { data[certificateEntry] = other[certificateEntry] },
		"another's certificate": func(data map[string][]byte) {
			data[certificateEntry], data[keyEntry] = other[certificateEntry], other[keyEntry]
		},
		"a certificate as authority": func(data map[string][]byte) { data[caEntry] = data[certificateEntry] },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data := maps.Clone(good)
			spoil(data)
			mended := renewed(t, r, parseContents(data), true)
			g.Expect(mended.verify(r.options.Names, at.now)).To(Succeed())
			g.Expect(renewed(t, r, mended, true).verify(r.options.Names, at.now)).To(Succeed())
		})
	}
}

func TestOtherNamesAreAnotherCertificate(t *testing.T) {
	g := NewWithT(t)
	at := &clock{time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	r := newRotatorAt(at)
	before := renewed(t, r, contents{}, false)
	r.options.Names = []string{"other.weir-system.svc", "127.0.0.1"}
	after := renewed(t, r, before, false)
	g.Expect(after.verify(r.options.Names, at.now)).To(Succeed())
	g.Expect(after.cas).To(Equal(before.cas))
}
