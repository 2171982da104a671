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
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// volume is a folder with TLS files, in the way a Secret is mounted: the files
// are links into a folder that is swapped as a whole.
type volume struct {
	tb  testing.TB
	dir string
	n   int
}

func newVolume(tb testing.TB) *volume {
	tb.Helper()
	v := &volume{tb: tb, dir: tb.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		v.do(os.Symlink(filepath.Join("..data", name), v.path(name)))
	}
	return v
}

func (v *volume) do(err error) {
	v.tb.Helper()
	if err != nil {
		v.tb.Fatal(err)
	}
}

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

// swap puts new files in place of all there are.
func (v *volume) swap(cert, key, clientCA []byte) {
	v.tb.Helper()
	v.n++
	data := strings.Repeat("x", v.n)
	v.do(os.Mkdir(v.path(data), 0o700))
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": clientCA} {
		v.do(os.WriteFile(filepath.Join(v.dir, data, name), content, 0o600))
	}
	v.do(os.Symlink(data, v.path("..next")))
	v.do(os.Rename(v.path("..next"), v.path("..data")))
}

func (v *volume) options(log *testenv.Log) Options {
	return Options{
		CertFile: v.path("tls.crt"), KeyFile: v.path("tls.key"), ClientCAFile: v.path("ca.crt"),
		Logger: slog.New(slog.NewTextHandler(log, nil)), Interval: time.Millisecond,
	}
}

// shown returns the common name of the certificate that a new connection is
// shown, if both sides are content.
func shown(server, client *tls.Config) (string, error) {
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
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", listener.Addr().String(), client)
	if err != nil {
		return "", errors.Join(err, <-ended)
	}
	defer conn.Close()
	// In TLS 1.3 a client is content before the server has looked at it.
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
		// Shown even to a server that asks for other authorities.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config
}

func TestNewFilesAreTaken(t *testing.T) {
	g := NewWithT(t)
	authority, clients := testenv.NewAuthority(t), testenv.NewAuthority(t)
	volume, log := newVolume(t), &testenv.Log{}
	cert, key := authority.Issue(t, "first", "weir")
	volume.swap(cert, key, clients.PEM)
	files, err := Load(volume.options(log))
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = files.Start(t.Context()) }()
	client := clientOf(t, authority, clients, "client")
	name := func() (string, error) { return shown(files.GRPC(), client) }
	g.Expect(name()).To(Equal("first"))

	cert, key = authority.Issue(t, "second", "weir")
	volume.swap(cert, key, clients.PEM)
	g.Eventually(name).Should(Equal("second"))
	g.Expect(log.String()).To(ContainSubstring("Loaded new TLS files"))

	// An authority that is replaced lets in nobody any more, and who comes back
	// gets no session of before.
	others := testenv.NewAuthority(t)
	volume.swap(cert, key, others.PEM)
	g.Eventually(func() error { _, err := name(); return err }).Should(HaveOccurred())
	g.Expect(shown(files.GRPC(), clientOf(t, authority, others, "client"))).To(Equal("second"))
}

func TestBrokenFilesKeepTheLastGood(t *testing.T) {
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(t, "good", "weir")
	otherCert, otherKey := authority.Issue(t, "other", "weir")
	tests := map[string]struct {
		cert, key, clientCA []byte
		failure             string
	}{
		"a key of another":    {otherCert, key, authority.PEM, "private key does not match"},
		"no certificate":      {nil, otherKey, authority.PEM, "failed to find any PEM data"},
		"cut short":           {otherCert[:len(otherCert)/2], otherKey, authority.PEM, "tls.crt"},
		"no client authority": {otherCert, otherKey, []byte("-"), "ca.crt: contains no certificate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			volume, log := newVolume(t), &testenv.Log{}
			volume.swap(cert, key, authority.PEM)
			files, err := Load(volume.options(log))
			g.Expect(err).NotTo(HaveOccurred())
			client := clientOf(t, authority, authority, "client")

			volume.swap(tc.cert, tc.key, tc.clientCA)
			files.poll()
			g.Expect(log.String()).To(BeEmpty(), "the files may be being written")
			for range 3 {
				files.poll()
			}
			g.Expect(strings.Count(log.String(), "Failed to load new TLS files")).To(Equal(1), "logged once")
			g.Expect(log.String()).To(ContainSubstring(tc.failure))
			g.Expect(shown(files.GRPC(), client)).To(Equal("good"))
			_, err = Load(volume.options(log))
			g.Expect(err).To(MatchError(ContainSubstring(tc.failure)), "nothing starts with them")

			volume.swap(cert, key, authority.PEM) // back to what is in force
			files.poll()
			volume.swap(otherCert, otherKey, authority.PEM)
			files.poll()
			g.Expect(shown(files.GRPC(), client)).To(Equal("other"))
		})
	}
}

func TestFilesThatGo(t *testing.T) {
	g := NewWithT(t)
	authority := testenv.NewAuthority(t)
	volume, log := newVolume(t), &testenv.Log{}
	cert, key := authority.Issue(t, "good", "weir")
	volume.swap(cert, key, authority.PEM)
	files, err := Load(volume.options(log))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.Remove(volume.path("..data"))).To(Succeed())
	files.poll()
	files.poll()
	g.Expect(log.String()).To(ContainSubstring("no such file"))
	g.Expect(shown(files.GRPC(), clientOf(t, authority, authority, "client"))).To(Equal("good"))
}

func TestWhoIsLetIn(t *testing.T) {
	authority, clients, strangers := testenv.NewAuthority(t), testenv.NewAuthority(t), testenv.NewAuthority(t)
	cert, key := authority.Issue(t, "server", "weir")
	names := []string{"spiffe://shop/gateway", "gateway.shop.svc", "old gateway"}
	tests := map[string]struct {
		client     *tls.Config
		grpc, http bool
	}{
		"no certificate":    {clientOf(t, authority, nil, ""), false, true},
		"another authority": {clientOf(t, authority, strangers, "old gateway"), false, false},
		"no allowed name":   {clientOf(t, authority, clients, "gateway", "spiffe://shop/gateway/x"), false, false},
		"no name":           {clientOf(t, authority, clients, ""), false, false},
		"a SPIFFE id":       {clientOf(t, authority, clients, "x", "spiffe://shop/gateway"), true, true},
		"a DNS name":        {clientOf(t, authority, clients, "x", "y", "gateway.shop.svc"), true, true},
		"a common name":     {clientOf(t, authority, clients, "old gateway"), true, true},
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
			_, err := shown(files.GRPC(), tc.client)
			g.Expect(err == nil).To(Equal(tc.grpc), "%v", err)
			_, err = shown(files.HTTP(), tc.client)
			g.Expect(err == nil).To(Equal(tc.http), "%v", err)
		})
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	g := NewWithT(t)
	authority := testenv.NewAuthority(t)
	volume := newVolume(t)
	cert, key := authority.Issue(t, "server", "weir")
	volume.swap(cert, key, nil)
	options := volume.options(&testenv.Log{})
	options.ClientCAFile = ""
	files, err := Load(options)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files.VerifiesClients()).To(BeFalse())
	client := clientOf(t, authority, nil, "")
	g.Expect(shown(files.GRPC(), client)).To(Equal("server"))
	client.MinVersion, client.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err = shown(files.GRPC(), client)
	g.Expect(err).To(MatchError(ContainSubstring("protocol version")))
}

func TestNamesOf(t *testing.T) {
	g := NewWithT(t)
	g.Expect(namesOf(&x509.Certificate{})).To(BeEmpty())
	options := Options{AllowedNames: []string{""}}
	state := tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
	g.Expect((&Files{options: options}).verifyName(state)).NotTo(Succeed(), "to have no name is no name")
}
