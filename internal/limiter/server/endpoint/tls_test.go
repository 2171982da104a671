// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/tlsfiles"
	"github.com/weir-dev/weir/test/testenv"
)

// running is an endpoint without policies that serves TLS. It accepts certificates of the CA
// clients with the name "gateway".
type running struct {
	*endpoint.Server
	t                *testing.T
	servers, clients *testenv.Authority
	dir              string
}

func start(t *testing.T) *running {
	t.Helper()
	return startWithOperator(t, "127.0.0.1:0")
}

func startWithOperator(t *testing.T, operatorAddress string) *running {
	t.Helper()
	g := NewWithT(t)
	r := &running{t: t, servers: testenv.NewAuthority(t), clients: testenv.NewAuthority(t), dir: t.TempDir()}
	r.replaceCertificate("first")
	g.Expect(os.WriteFile(filepath.Join(r.dir, "ca.crt"), r.clients.PEM, 0o600)).To(Succeed())
	logger := slog.New(slog.DiscardHandler)
	files, err := tlsfiles.Load(tlsfiles.Options{
		CertFile: filepath.Join(r.dir, "tls.crt"), KeyFile: filepath.Join(r.dir, "tls.key"),
		ClientCAFile: filepath.Join(r.dir, "ca.crt"), AllowedNames: []string{"gateway"},
		Logger: logger, Interval: 5 * time.Millisecond,
	})
	g.Expect(err).NotTo(HaveOccurred())
	store := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = store.Close() })
	r.Server = endpoint.New(endpoint.Options{
		Redis: store, RedisPrefix: "weir:", HTTPAddress: "127.0.0.1:0", GRPCAddress: "127.0.0.1:0", TLS: files,
		OperatorAddress: operatorAddress,
		StoreTimeout:    time.Minute, Logger: logger, Registry: prometheus.NewRegistry(),
	})
	r.Use(index.NewSnapshot(1, nil))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Eventually(ended, "30s").Should(Receive(BeNil()))
	})
	g.Eventually(r.HTTP.Addr).ShouldNot(BeEmpty())
	g.Eventually(r.GRPC.Addr).ShouldNot(BeEmpty())
	g.Eventually(r.Operator.Addr).ShouldNot(BeEmpty())
	return r
}

// replaceCertificate writes a new server certificate with the common name to the files.
func (r *running) replaceCertificate(commonName string) {
	r.t.Helper()
	cert, key := r.servers.Issue(r.t, commonName, "127.0.0.1")
	r.write("tls.crt", cert)
	r.write("tls.key", key)
}

// write replaces the file atomically.
func (r *running) write(name string, content []byte) {
	r.t.Helper()
	g, path := NewWithT(r.t), filepath.Join(r.dir, name)
	g.Expect(os.WriteFile(path+".next", content, 0o600)).To(Succeed())
	g.Expect(os.Rename(path+".next", path)).To(Succeed())
}

// client returns the TLS configuration of a client with a certificate of the CA, or without
// one for nil.
func (r *running) client(authority *testenv.Authority, name string) *tls.Config {
	r.t.Helper()
	config := &tls.Config{RootCAs: r.servers.Pool(), MinVersion: tls.VersionTLS12}
	if authority != nil {
		pair, err := tls.X509KeyPair(authority.Issue(r.t, name))
		NewWithT(r.t).Expect(err).NotTo(HaveOccurred())
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config
}

func (r *running) httpClient(config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// get returns the status and the common name of the server certificate.
func (r *running) get(client *http.Client, path string) (status int, commonName string) {
	response, err := client.Get("https://" + r.HTTP.Addr() + path)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.TLS.PeerCertificates[0].Subject.CommonName
}

// dial returns a function that checks the health over one gRPC connection.
func (r *running) dial(config *tls.Config) func() error {
	conn, err := grpc.NewClient(r.GRPC.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
	NewWithT(r.t).Expect(err).NotTo(HaveOccurred())
	r.t.Cleanup(func() { _ = conn.Close() })
	return func() error {
		ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
		defer cancel()
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}
}

func TestFrontendsNeedClientCertificates(t *testing.T) {
	r := start(t)
	for name, tc := range map[string]struct {
		client                  *tls.Config
		probe, check, authorize int
		grpc                    bool
	}{
		"no certificate":  {r.client(nil, ""), 200, 403, 403, false},
		"another CA":      {r.client(testenv.NewAuthority(t), "gateway"), 0, 0, 0, false},
		"another name":    {r.client(r.clients, "stranger"), 0, 0, 0, false},
		"an allowed name": {r.client(r.clients, "gateway"), 200, 405, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			client := r.httpClient(tc.client)
			for path, want := range map[string]int{
				"/readyz": tc.probe, "/healthz": tc.probe, "/v1/check": tc.check, "/v1/authorize": tc.authorize,
			} {
				status, _ := r.get(client, path)
				g.Expect(status).To(Equal(want), path)
			}
			g.Expect(r.dial(tc.client)() == nil).To(Equal(tc.grpc))
		})
	}
}

// policies returns the status of GET /v1/policies on the operator port at 127.0.0.1, 0 without an
// answer.
func (r *running) policies(scheme string, config *tls.Config) int {
	r.t.Helper()
	_, port, err := net.SplitHostPort(r.Operator.Addr())
	NewWithT(r.t).Expect(err).NotTo(HaveOccurred())
	response, err := r.httpClient(config).Get(scheme + "://127.0.0.1:" + port + "/v1/policies")
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func TestOperatorPortOnLoopbackHasNoTLS(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		g, r := NewWithT(t), startWithOperator(t, address)
		g.Expect(r.policies("http", nil)).To(Equal(200))
		g.Expect(r.policies("https", r.client(r.clients, "gateway"))).To(Equal(0))
	}
}

func TestOperatorPortBeyondLoopbackNeedsClientCertificates(t *testing.T) {
	g, r := NewWithT(t), startWithOperator(t, "0.0.0.0:0")
	g.Expect(r.policies("https", r.client(r.clients, "gateway"))).To(Equal(200))
	g.Expect(r.policies("https", r.client(nil, ""))).To(Equal(403))
	g.Expect(r.policies("http", nil)).To(Equal(400), "plain text")
}

// newName returns the common name of the certificate that a new HTTP connection receives.
func (r *running) newName(config *tls.Config) string {
	_, name := r.get(r.httpClient(config), "/readyz")
	return name
}

func TestNewConnectionsReceiveANewCertificate(t *testing.T) {
	g := NewWithT(t)
	r := start(t)
	config := r.client(r.clients, "gateway")
	g.Expect(r.newName(config)).To(Equal("first"))
	r.replaceCertificate("second")
	g.Eventually(r.newName).WithArguments(config).Should(Equal("second"))
	conn, err := tls.Dial("tcp", r.GRPC.Addr(), &tls.Config{
		RootCAs: r.servers.Pool(), MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, GetClientCertificate: config.GetClientCertificate,
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.ConnectionState().PeerCertificates[0].Subject.CommonName).To(Equal("second"))
	g.Expect(conn.Close()).To(Succeed())
}

func TestOpenConnectionsSurviveANewCertificate(t *testing.T) {
	g := NewWithT(t)
	r := start(t)
	config := r.client(r.clients, "gateway")
	oldHTTP, oldGRPC := r.httpClient(config), r.dial(config)
	_, name := r.get(oldHTTP, "/readyz")
	g.Expect(name).To(Equal("first"))
	g.Expect(oldGRPC()).To(Succeed())

	r.replaceCertificate("second")
	g.Eventually(r.newName).WithArguments(config).Should(Equal("second"))
	status, name := r.get(oldHTTP, "/readyz")
	g.Expect(status).To(Equal(200))
	g.Expect(name).To(Equal("first"), "an open connection keeps its certificate")
	g.Expect(oldGRPC()).To(Succeed())
}

func TestMismatchedKeyIsNotLoaded(t *testing.T) {
	g := NewWithT(t)
	r := start(t)
	config := r.client(r.clients, "gateway")
	_, key := r.servers.Issue(t, "third")
	r.write("tls.key", key)
	g.Consistently(r.newName).WithArguments(config).WithTimeout(100 * time.Millisecond).Should(Equal("first"))
}
