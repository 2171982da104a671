// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// secrets is a folder with files, as a Secret is mounted.
type secrets struct {
	t   *testing.T
	dir string
}

func (s secrets) path(name string) string { return filepath.Join(s.dir, name) }

func (s secrets) write(name, content string) string {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.path(name)
}

func (s secrets) issue(authority *testenv.Authority, name string) (cert, key string) {
	s.t.Helper()
	c, k := authority.Issue(s.t, name, "127.0.0.1", "localhost")
	return s.write(name+".crt", string(c)), s.write(name+".key", string(k))
}

func TestFilesAreRejected(t *testing.T) {
	s := secrets{t, t.TempDir()}
	word, empty, absent := s.write("word", "secret"), s.write("empty", "\nsecret\n"), s.path("absent")
	for name, tc := range map[string]struct {
		files     redisclient.Files
		url, want string
	}{
		"two users":               {redisclient.Files{Password: word}, "redis://u:secret@h", "credentials are in both the URL and --redis-password-file"},
		"user alone":              {redisclient.Files{Username: word}, "redis://h", "--redis-username-file needs --redis-password-file"},
		"certificate alone":       {redisclient.Files{Cert: word}, "rediss://h", "need each other"},
		"key alone":               {redisclient.Files{Key: word}, "rediss://h", "need each other"},
		"authority without TLS":   {redisclient.Files{CA: word}, "redis-cluster://h", "need rediss://, rediss-cluster:// or rediss-sentinel://"},
		"server name without TLS": {redisclient.Files{ServerName: "n"}, "redis-sentinel://h/m", "--redis-server-name needs rediss://"},
		"sentinel user alone":     {redisclient.Files{SentinelUsername: word}, "redis-sentinel://h/m", "--redis-sentinel-username-file needs --redis-sentinel-password-file"},
		"no sentinels":            {redisclient.Files{SentinelPassword: word}, "redis-cluster://h", "--redis-sentinel-password-file needs redis-sentinel://"},
		"no sentinel password":    {redisclient.Files{SentinelPassword: empty}, "redis-sentinel://h/m", "the first line is empty"},
		"no password":             {redisclient.Files{Password: empty}, "redis://h", "the first line is empty"},
		"no file":                 {redisclient.Files{Password: absent}, "redis://h", "no such file"},
		"no authority":            {redisclient.Files{CA: word}, "rediss://h", "contains no certificate"},
		"no certificate":          {redisclient.Files{Cert: word, Key: word}, "rediss-cluster://h", "failed to find any PEM data"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := tc.files.New(tc.url, time.Second)
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
		})
	}
}

func TestUsernameAndPasswordFiles(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	server := testenv.StartRedis(t)
	admin := newClient(t, server.URL, commandTimeout)
	setPassword := func(is string) {
		g.Expect(admin.Do(ctx, "ACL", "SETUSER", "weir", "resetpass", "on", ">"+is, "~*", "+@all").Err()).To(Succeed())
	}
	setPassword("first")
	s := secrets{t, t.TempDir()}
	files := redisclient.Files{Username: s.write("username", "weir\r\n"), Password: s.write("password", "first\n")}
	client, err := files.New(server.URL, commandTimeout)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close()).To(Succeed()) }()
	g.Expect(client.Do(ctx, "ACL", "WHOAMI").Val()).To(Equal("weir"))

	// New connections use the new password.
	setPassword("second")
	s.write("password", "second\n")
	g.Expect(admin.Do(ctx, "CLIENT", "KILL", "USER", "weir").Err()).To(Succeed())
	g.Eventually(func() any { return client.Do(ctx, "ACL", "WHOAMI").Val() }).Should(Equal("weir"))
}

// startTLS starts a Redis that requires client certificates of the CA.
func startTLS(t *testing.T, s secrets, authority *testenv.Authority) string {
	t.Helper()
	cert, key := s.issue(authority, "server")
	addr := testenv.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	testenv.StartRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", s.write("ca.crt", string(authority.PEM)), "--tls-auth-clients", "yes")
	return "rediss://" + addr
}

func TestCertificateFiles(t *testing.T) {
	g := NewWithT(t)
	s := secrets{t, t.TempDir()}
	authority := testenv.NewAuthority(t)
	url := startTLS(t, s, authority)
	cert, key := s.issue(authority, "client")
	ping := func(files redisclient.Files) error {
		client, err := files.New(url, commandTimeout)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = client.Close() }()
		return client.Ping(t.Context()).Err()
	}
	g.Expect(ping(redisclient.Files{CA: s.path("ca.crt"), Cert: cert, Key: key})).To(Succeed())
	g.Expect(ping(redisclient.Files{CA: s.path("ca.crt")})).To(HaveOccurred(), "without a client certificate")
	g.Expect(ping(redisclient.Files{Cert: cert, Key: key})).
		To(MatchError(ContainSubstring("unknown authority")), "system roots verify the server")
	stranger, strangerKey := s.issue(testenv.NewAuthority(t), "stranger")
	g.Expect(ping(redisclient.Files{CA: s.path("ca.crt"), Cert: stranger, Key: strangerKey})).To(HaveOccurred())
}

// A port without TLS does not answer a handshake. The error names the scheme.
func TestPortWithoutTLSIsNamed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	for _, scheme := range []string{"rediss://", "rediss-cluster://"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			client, err := redisclient.New(scheme+server.Addr, time.Minute)
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = client.Close() }()
			g.Expect(client.Ping(t.Context()).Err()).To(MatchError(ContainSubstring(
				server.Addr + " does not answer a TLS handshake; a port without TLS needs redis:// in place of rediss://")))
		})
	}
}

// Nodes may announce addresses while their certificates have a name.
func TestServerName(t *testing.T) {
	t.Parallel()
	s := secrets{t, t.TempDir()}
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(t, "redis", "redis.example")
	addr := testenv.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	ca := s.write("ca.crt", string(authority.PEM))
	testenv.StartRedis(t, "--tls-port", port, "--tls-cert-file", s.write("tls.crt", string(cert)),
		"--tls-key-file", s.write("tls.key", string(key)), "--tls-ca-cert-file", ca, "--tls-auth-clients", "no")
	for _, scheme := range []string{"rediss://", "rediss-cluster://"} {
		for name, want := range map[string]string{
			"":              "127.0.0.1",
			"other.example": "other.example",
			"redis.example": "", // reaches Redis, which is not in a cluster
		} {
			t.Run(scheme+name, func(t *testing.T) {
				g := NewWithT(t)
				client, err := redisclient.Files{CA: ca, ServerName: name}.New(scheme+addr, commandTimeout)
				g.Expect(err).NotTo(HaveOccurred())
				defer func() { _ = client.Close() }()
				err = client.Ping(t.Context()).Err()
				switch {
				case want != "":
					g.Expect(err).To(MatchError(And(ContainSubstring("x509"), ContainSubstring(want))))
				case scheme == "rediss://":
					g.Expect(err).NotTo(HaveOccurred())
				default:
					g.Expect(err).To(MatchError(ContainSubstring("cluster support disabled")))
				}
			})
		}
	}
}

func TestFilesAreReadForEachConnection(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	s := secrets{t, t.TempDir()}
	authority := testenv.NewAuthority(t)
	url := startTLS(t, s, authority)
	cert, key := s.issue(authority, "client")
	files := redisclient.Files{CA: s.path("ca.crt"), Cert: cert, Key: key}
	client, err := files.New(url, commandTimeout)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close()).To(Succeed()) }()
	s.issue(testenv.NewAuthority(t), "client")
	g.Expect(client.Ping(ctx).Err()).To(HaveOccurred(), "client certificate of an unknown CA")
	s.issue(authority, "client")
	g.Eventually(func() error { return client.Ping(ctx).Err() }).Should(Succeed())
}

// The credentials and certificates of the files apply to the nodes of a cluster, too.
func TestFilesApplyToClusters(t *testing.T) {
	g := NewWithT(t)
	s := secrets{t, t.TempDir()}
	authority := testenv.NewAuthority(t)
	cert, key := s.issue(authority, "client")
	files := redisclient.Files{
		Password: s.write("password", "s3cret"), CA: s.write("ca.crt", string(authority.PEM)), Cert: cert, Key: key,
	}
	client, err := files.New("rediss-cluster://localhost:1", time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()
	options := client.(*redis.ClusterClient).Options()
	_, password, err := options.CredentialsProviderContext(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(password).To(Equal("s3cret"))

	// The certificate of every node is verified for the host of the URL.
	serverCert, serverKey := authority.Issue(t, "node", "localhost")
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
	})
	g.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	shown := make(chan string, 1)
	go func() {
		defer close(shown)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if server := conn.(*tls.Conn); server.HandshakeContext(t.Context()) == nil {
			shown <- server.ConnectionState().PeerCertificates[0].Subject.CommonName
		}
	}()
	conn, err := options.Dialer(t.Context(), "tcp", listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	g.Expect(<-shown).To(Equal("client"))
}
