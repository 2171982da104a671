// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// mtls is the certificates between Envoy and weir, of one CA.
type mtls struct {
	t            *testing.T
	name         string // of weir
	weir, envoy  *testenv.Volume
	flags        []string     // of weir
	client       *http.Client // verifies weir by the current CA; it needs a connection for each request
	ca           *testenv.Authority
	clientConfig *tls.Config
}

// newMTLS issues certificates for Envoy and for weir, which has the name.
func newMTLS(t *testing.T, name string) *mtls {
	t.Helper()
	m := &mtls{t: t, name: name, weir: testenv.NewVolume(t), envoy: testenv.NewVolume(t)}
	m.clientConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	m.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: m.clientConfig}, Timeout: pause}
	m.flags = []string{
		"--tls-cert-file", m.weir.Path("tls.crt"), "--tls-key-file", m.weir.Path("tls.key"),
		"--client-ca-file", m.weir.Path("ca.crt"), "--allowed-client-names", "gateway.example",
	}
	m.ca = testenv.NewAuthority(t)
	m.issue(m.ca.PEM)
	return m
}

// issue gives both ends new certificates of the CA, and the CAs to trust, in PEM.
func (m *mtls) issue(trusted []byte) {
	m.t.Helper()
	m.clientConfig.RootCAs = m.ca.Pool()
	for volume, names := range map[*testenv.Volume][]string{m.weir: {"weir", m.name}, m.envoy: {"gateway", "gateway.example"}} {
		cert, key := m.ca.Issue(m.t, names[0], names[1])
		volume.Replace(map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": trusted})
	}
}

// rotate replaces the CA: both ends trust the old and the new one, then get certificates of the new
// one, then trust only that.
func (w *weather) rotate() {
	w.t.Helper()
	old, next := w.mtls.ca, testenv.NewAuthority(w.t)
	both := slices.Concat(old.PEM, next.PEM)
	w.reissue(2, both)
	w.mtls.ca = next
	w.reissue(1, both)
	w.reissue(2, next.PEM)
}

// reissue issues new certificates and waits until all processes have loaded them. secrets is the number
// of the secrets of Envoy that change.
func (w *weather) reissue(secrets int, trusted []byte) {
	w.t.Helper()
	loads := func() (n []int) {
		for _, r := range w.replicas {
			n = append(n, strings.Count(r.log.String(), "Loaded new TLS files"))
		}
		for _, f := range w.fronts {
			n = append(n, int(f.stat(w.t, "weir", "client_ssl_socket_factory.ssl_context_update_by_sds")))
		}
		return n
	}
	want := loads()
	for i := range want {
		want[i]++
		if i >= len(w.replicas) {
			want[i] += secrets - 1
		}
	}
	w.mtls.issue(trusted)
	NewWithT(w.t).Eventually(loads, "30s", "20ms").Should(Equal(want), "loads of new certificates")
	for _, r := range w.replicas {
		NewWithT(w.t).Expect(r.probe()).To(Succeed())
	}
}

// transport returns the pair that adds the documented transport socket to the cluster of weir, with
// its secrets.
func (m *mtls) transport(t *testing.T) (pair []string) {
	t.Helper()
	page, sds := blocks(t, "envoy.md"), t.TempDir()
	for name, config := range map[string]string{"weir-client.yaml": page[5], "weir-ca.yaml": page[6]} {
		config = replace(t, config, "/etc/envoy/weir", m.envoy.Dir)
		NewWithT(t).Expect(os.WriteFile(filepath.Join(sds, name), []byte(config), 0o600)).To(Succeed())
	}
	const cluster = "  - name: weir\n"
	return []string{cluster, cluster + indent(replace(t, page[4], "/etc/envoy/sds", sds))}
}
