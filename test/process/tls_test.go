// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// The TLS flags configure the HTTP port, changed files are reloaded, and
// --legacy-headers works over TLS.
func TestTLSFlags(t *testing.T) {
	g := NewWithT(t)
	authority, dir := testenv.NewAuthority(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	show := func(commonName string) {
		cert, key := authority.Issue(t, commonName, "127.0.0.1")
		g.Expect(os.WriteFile(path("tls.crt"), cert, 0o600)).To(Succeed())
		g.Expect(os.WriteFile(path("tls.key"), key, 0o600)).To(Succeed())
	}
	show("first")
	g.Expect(os.WriteFile(path("ca.crt"), authority.PEM, 0o600)).To(Succeed())
	p := startStandalone(t, "--policies", "../../config/samples", "--legacy-headers",
		"--tls-cert-file", path("tls.crt"), "--tls-key-file", path("tls.key"),
		"--client-ca-file", path("ca.crt"), "--allowed-client-names", "other,spiffe://shop/gateway")

	pair, err := tls.X509KeyPair(authority.Issue(t, "client", "spiffe://shop/gateway"))
	g.Expect(err).NotTo(HaveOccurred())
	// ask sends a check over a new connection and returns the response and the server
	// certificate.
	ask := func(certificates ...tls.Certificate) (status int, header http.Header, by string) {
		client := &http.Client{Timeout: process.Timeout, Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: authority.Pool(), Certificates: certificates, MinVersion: tls.VersionTLS12},
		}}
		answer, err := client.Get("https://" + p.HTTP + "/v1/authorize?policy=shop/burst")
		if err != nil {
			return 0, nil, ""
		}
		defer func() { _ = answer.Body.Close() }()
		return answer.StatusCode, answer.Header, answer.TLS.PeerCertificates[0].Subject.CommonName
	}
	status, _, _ := ask()
	g.Expect(status).To(Equal(http.StatusForbidden))
	status, header, by := ask(pair)
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(by).To(Equal("first"))
	g.Expect(header.Get("X-RateLimit-Limit") + " " + header.Get("X-RateLimit-Remaining")).To(Equal("3 2"))

	show("second")
	g.Eventually(func() string { _, _, by := ask(pair); return by }).Should(Equal("second"))
}
