// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/test/testenv"
)

// volume is a volume with TLS files.
type volume struct{ *testenv.Volume }

func newVolume(tb testing.TB) *volume {
	tb.Helper()
	return &volume{testenv.NewVolume(tb)}
}

// swap replaces all files.
func (v *volume) swap(cert, key, clientCA []byte) {
	v.Replace(map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": clientCA})
}

func (v *volume) options(log *testenv.Log) Options {
	return Options{
		CertFile: v.Path("tls.crt"), KeyFile: v.Path("tls.key"), ClientCAFile: v.Path("ca.crt"),
		Logger: slog.New(slog.NewTextHandler(log, nil)), Interval: time.Millisecond,
	}
}

// handshake connects a new client and returns the common name of the server certificate, or the
// errors of both sides.
func handshake(server, client *tls.Config) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, err = tls.Server(conn, server).Write([]byte("!"))
		}
		ended <- err
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", listener.Addr().String(), client)
	if err != nil {
		return "", errors.Join(err, <-ended)
	}
	defer conn.Close()
	// In TLS 1.3 the handshake of the client ends before the server has verified the client.
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return "", errors.Join(err, <-ended)
	}
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, <-ended
}

func clientOf(t *testing.T, servers, clients *testenv.Authority, commonName string, names ...string) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: servers.Pool(), ServerName: "weir", MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	if clients != nil {
		pair, err := tls.X509KeyPair(clients.Issue(t, commonName, names...))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		// Sent even to a server that accepts other CAs only.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config
}

// loaded are files that are polled, with the certificate "first" of the CA servers and with the
// client CA clients.
type loaded struct {
	*Files
	t                *testing.T
	volume           *volume
	log              *testenv.Log
	servers, clients *testenv.Authority
	cert, key        []byte
}

func newLoaded(t *testing.T) *loaded {
	t.Helper()
	l := &loaded{t: t, volume: newVolume(t), log: &testenv.Log{}, servers: testenv.NewAuthority(t), clients: testenv.NewAuthority(t)}
	l.swapCertificate("first")
	files, err := Load(l.volume.options(l.log))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	l.Files = files
	go func() { _ = files.Start(t.Context()) }()
	return l
}

// swapCertificate replaces the server certificate.
func (l *loaded) swapCertificate(commonName string) {
	l.t.Helper()
	l.cert, l.key = l.servers.Issue(l.t, commonName, "weir")
	l.volume.swap(l.cert, l.key, l.clients.PEM)
}

func TestNewCertificateIsLoaded(t *testing.T) {
	g := NewWithT(t)
	l := newLoaded(t)
	client := clientOf(t, l.servers, l.clients, "client")
	name := func() (string, error) { return handshake(l.GRPC(), client) }
	g.Expect(name()).To(Equal("first"))
	l.swapCertificate("second")
	g.Eventually(name).Should(Equal("second"))
	g.Expect(l.log.String()).To(ContainSubstring("Loaded new TLS files"))
}

// The client that connected before cannot resume its session.
func TestNewClientCAReplacesTheOld(t *testing.T) {
	g := NewWithT(t)
	l := newLoaded(t)
	client := clientOf(t, l.servers, l.clients, "client")
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	others := testenv.NewAuthority(t)
	connect := func() error { _, err := handshake(l.GRPC(), client); return err }
	g.Expect(connect()).To(Succeed())
	l.volume.swap(l.cert, l.key, others.PEM)
	g.Eventually(connect).Should(HaveOccurred())
	g.Expect(handshake(l.GRPC(), clientOf(t, l.servers, others, "client"))).To(Equal("first"))
}

// fileSet is the content of the three files.
type fileSet struct{ cert, key, clientCA []byte }

// polled are files with the certificate "good" of a CA for servers and clients. The test calls
// poll.
type polled struct {
	*Files
	ca     *testenv.Authority
	volume *volume
	log    *testenv.Log
	good   fileSet
}

func newPolled(t *testing.T) *polled {
	t.Helper()
	p := &polled{ca: testenv.NewAuthority(t), volume: newVolume(t), log: &testenv.Log{}}
	p.good = p.issue(t, "good")
	p.swap(p.good)
	files, err := Load(p.volume.options(p.log))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	p.Files = files
	return p
}

func (p *polled) issue(t *testing.T, commonName string) fileSet {
	t.Helper()
	cert, key := p.ca.Issue(t, commonName, "weir")
	return fileSet{cert, key, p.ca.PEM}
}

func (p *polled) swap(f fileSet) { p.volume.swap(f.cert, f.key, f.clientCA) }

// handshake returns the common name of the certificate that a new client receives.
func (p *polled) handshake(t *testing.T) (string, error) {
	t.Helper()
	return handshake(p.GRPC(), clientOf(t, p.ca, p.ca, "client"))
}

// invalidFiles spoil a valid set. Loading them fails with a message that contains failure.
var invalidFiles = map[string]struct {
	spoil   func(f, good *fileSet)
	failure string
}{
	"a key of another certificate": {func(f, good *fileSet) { f.key = good.key }, "private key does not match"},
	"no certificate":               {func(f, _ *fileSet) { f.cert = nil }, "failed to find any PEM data"},
	"a truncated certificate":      {func(f, _ *fileSet) { f.cert = f.cert[:len(f.cert)/2] }, "tls.crt"},
	"no client CA":                 {func(f, _ *fileSet) { f.clientCA = []byte("-") }, "ca.crt: contains no certificate"},
}

// swapInvalid replaces the files with new ones that spoil has made invalid.
func (p *polled) swapInvalid(t *testing.T, spoil func(f, good *fileSet)) {
	t.Helper()
	c := p.issue(t, "other")
	spoil(&c, &p.good)
	p.swap(c)
}

func TestInvalidFilesKeepTheLastGood(t *testing.T) {
	for name, tc := range invalidFiles {
		t.Run(name, func(t *testing.T) {
			p := newPolled(t)
			p.swapInvalid(t, tc.spoil)
			p.poll()
			p.poll()
			NewWithT(t).Expect(p.handshake(t)).To(Equal("good"))
		})
	}
}

// The first failure is not logged, because the files may be incomplete.
func TestInvalidFilesAreLoggedOnce(t *testing.T) {
	for name, tc := range invalidFiles {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := newPolled(t)
			p.swapInvalid(t, tc.spoil)
			p.poll()
			g.Expect(p.log.String()).To(BeEmpty())
			for range 3 {
				p.poll()
			}
			g.Expect(strings.Count(p.log.String(), "Failed to load new TLS files")).To(Equal(1))
			g.Expect(p.log.String()).To(ContainSubstring(tc.failure))
		})
	}
}

func TestLoadRejectsInvalidFiles(t *testing.T) {
	for name, tc := range invalidFiles {
		t.Run(name, func(t *testing.T) {
			p := newPolled(t)
			p.swapInvalid(t, tc.spoil)
			_, err := Load(p.volume.options(p.log))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.failure)))
		})
	}
}

func TestValidFilesAreLoadedAfterInvalidOnes(t *testing.T) {
	for name, tc := range invalidFiles {
		t.Run(name, func(t *testing.T) {
			p := newPolled(t)
			p.swapInvalid(t, tc.spoil)
			p.poll()
			p.poll()
			p.swap(p.good) // the files in use
			p.poll()
			p.swap(p.issue(t, "other"))
			p.poll()
			NewWithT(t).Expect(p.handshake(t)).To(Equal("other"))
		})
	}
}

func TestDeletedFilesKeepTheLastGood(t *testing.T) {
	g := NewWithT(t)
	p := newPolled(t)
	g.Expect(os.Remove(p.volume.Path("..data"))).To(Succeed())
	p.poll()
	p.poll()
	g.Expect(p.log.String()).To(ContainSubstring("no such file"))
	g.Expect(p.handshake(t)).To(Equal("good"))
}

func TestClientCertificatesAreVerified(t *testing.T) {
	authority, clients, strangers := testenv.NewAuthority(t), testenv.NewAuthority(t), testenv.NewAuthority(t)
	cert, key := authority.Issue(t, "server", "weir")
	names := []string{"spiffe://shop/gateway", "gateway.shop.svc", "old gateway"}
	tests := map[string]struct {
		client     *tls.Config
		grpc, http bool
	}{
		"no certificate": {clientOf(t, authority, nil, ""), false, true},
		"another CA":     {clientOf(t, authority, strangers, "old gateway"), false, false},
		"another name":   {clientOf(t, authority, clients, "gateway", "spiffe://shop/gateway/x"), false, false},
		"no name":        {clientOf(t, authority, clients, ""), false, false},
		"a SPIFFE id":    {clientOf(t, authority, clients, "x", "spiffe://shop/gateway"), true, true},
		"a DNS name":     {clientOf(t, authority, clients, "x", "y", "gateway.shop.svc"), true, true},
		"a common name":  {clientOf(t, authority, clients, "old gateway"), true, true},
	}
	volume := newVolume(t)
	volume.swap(cert, key, clients.PEM)
	options := volume.options(&testenv.Log{})
	options.AllowedNames = names
	files, err := Load(options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := handshake(files.GRPC(), tc.client)
			g.Expect(err == nil).To(Equal(tc.grpc), "%v", err)
			_, err = handshake(files.HTTP(), tc.client)
			g.Expect(err == nil).To(Equal(tc.http), "%v", err)
		})
	}
}

// loadWithoutClientCA loads files that do not verify clients.
func loadWithoutClientCA(t *testing.T, servers *testenv.Authority) *Files {
	t.Helper()
	volume := newVolume(t)
	cert, key := servers.Issue(t, "server", "weir")
	volume.swap(cert, key, nil)
	options := volume.options(&testenv.Log{})
	options.ClientCAFile = ""
	files, err := Load(options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return files
}

func TestClientsNeedNoCertificateWithoutClientCA(t *testing.T) {
	g := NewWithT(t)
	servers := testenv.NewAuthority(t)
	files := loadWithoutClientCA(t, servers)
	g.Expect(files.VerifiesClients()).To(BeFalse())
	g.Expect(handshake(files.GRPC(), clientOf(t, servers, nil, ""))).To(Equal("server"))
}

func TestExpiryIsExported(t *testing.T) {
	g := NewWithT(t)
	files := loadWithoutClientCA(t, testenv.NewAuthority(t))
	g.Expect(files.Expires()).To(BeTemporally(">", time.Now()))
	registry := prometheus.NewRegistry()
	expiry := NewExpiry(registry)
	expiry.Add("server", files.Expires)
	expiry.Add("webhook", func() time.Time { return time.Time{} })
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(HaveLen(1))
	g.Expect(families[0].GetMetric()).To(HaveLen(1), "there is no webhook certificate yet")
	g.Expect(families[0].GetMetric()[0].GetLabel()[0].GetValue()).To(Equal("server"))
	g.Expect(families[0].GetMetric()[0].GetGauge().GetValue()).To(BeEquivalentTo(files.Expires().Unix()))
}

func TestOldTLSIsRejected(t *testing.T) {
	servers := testenv.NewAuthority(t)
	files := loadWithoutClientCA(t, servers)
	client := clientOf(t, servers, nil, "")
	client.MinVersion, client.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err := handshake(files.GRPC(), client)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("protocol version")))
}

func TestCertificateWithoutNames(t *testing.T) {
	NewWithT(t).Expect(namesOf(&x509.Certificate{})).To(BeEmpty())
}

func TestEmptyAllowedNameAllowsNoCertificate(t *testing.T) {
	options := Options{AllowedNames: []string{""}}
	state := tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
	NewWithT(t).Expect((&Files{options: options}).verifyName(state)).NotTo(Succeed())
}
