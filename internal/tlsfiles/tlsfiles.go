// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles provides TLS configurations from certificate files and reloads them when
// the files change, without a restart and without closing connections. If the new files
// are unusable, the last good ones stay in use.
//
// It polls the files every second instead of watching them: in a Secret volume a file is a
// symbolic link to a link that is swapped, and polling works alike on every file system.
//
// Read tlsfiles.go first; expiry.go exports when certificates expire.
package tlsfiles

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

const defaultInterval = time.Second

// Options configure Files. CertFile, KeyFile and Logger are required.
type Options struct {
	// CertFile and KeyFile hold the certificate of the server, with its intermediates, and
	// its key, in PEM.
	CertFile, KeyFile string
	// ClientCAFile holds the CAs that verify client certificates, in PEM; empty turns mTLS
	// off.
	ClientCAFile string
	// AllowedNames lists names of which a client certificate must have one; empty allows
	// every certificate of those CAs.
	AllowedNames []string
	// Logger receives reloads and unusable files.
	Logger *slog.Logger
	// Interval is the polling interval; 0 is one second.
	Interval time.Duration
}

// contents holds the text of the files.
type contents struct{ cert, key, clientCA string }

// failure is an error and the contents that caused it.
type failure struct {
	contents
	problem string
}

// Files holds the certificates that were last loaded.
type Files struct {
	options Options
	current atomic.Pointer[tls.Config]
	inUse   contents
	// failing is the failure of the last poll, zero if it succeeded, and failures counts
	// how often it occurred in a row.
	failing  failure
	failures int
}

// Load reads the files. It returns an error if they are unusable.
func Load(o Options) (*Files, error) {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	f := &Files{options: o}
	read, err := f.read()
	if err != nil {
		return nil, err
	}
	config, err := f.config(read)
	if err != nil {
		return nil, err
	}
	f.use(read, config)
	return f, nil
}

// Start polls the files until ctx ends.
func (f *Files) Start(ctx context.Context) error {
	ticker := time.NewTicker(f.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.poll()
		}
	}
}

// poll loads the files if they have changed and are usable.
func (f *Files) poll() {
	read, err := f.read()
	if err == nil && read == f.inUse {
		f.failing, f.failures = failure{}, 0
		return
	}
	var config *tls.Config
	if err == nil {
		config, err = f.config(read)
	}
	if err != nil {
		f.logUnusable(failure{contents: read, problem: err.Error()})
		return
	}
	f.use(read, config)
	f.options.Logger.Info("Loaded new TLS files", "certificate", f.options.CertFile,
		"expires", config.Certificates[0].Leaf.NotAfter)
}

// logUnusable logs a failure once, at its second poll in a row: a single poll may read files
// of which one is still being written.
func (f *Files) logUnusable(found failure) {
	if found != f.failing {
		f.failing, f.failures = found, 0
	}
	if f.failures++; f.failures == 2 {
		f.options.Logger.Error("Failed to load new TLS files; the last good ones stay in use", "error", found.problem)
	}
}

func (f *Files) use(read contents, config *tls.Config) {
	f.inUse, f.failing, f.failures = read, failure{}, 0
	f.current.Store(config)
}

func (f *Files) read() (c contents, err error) {
	for _, file := range []struct {
		path string
		into *string
	}{
		{f.options.CertFile, &c.cert},
		{f.options.KeyFile, &c.key},
		{f.options.ClientCAFile, &c.clientCA},
	} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return contents{}, err
		}
		*file.into = string(data)
	}
	return c, nil
}

// config builds the configuration that all ports share.
func (f *Files) config(c contents) (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(c.cert), []byte(c.key))
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", f.options.CertFile, f.options.KeyFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if !f.VerifiesClients() {
		return config, nil
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM([]byte(c.clientCA)) {
		return nil, fmt.Errorf("%s: contains no certificate", f.options.ClientCAFile)
	}
	config.VerifyConnection = f.verifyName
	// A resumed session would stay valid after its CA was removed.
	config.SessionTicketsDisabled = true
	return config, nil
}

// Expires returns when the certificate in use expires.
func (f *Files) Expires() time.Time { return f.current.Load().Certificates[0].Leaf.NotAfter }

// VerifiesClients reports whether mTLS is on.
func (f *Files) VerifiesClients() bool { return f.options.ClientCAFile != "" }

// HTTP returns the configuration of an HTTP port. The handshake also accepts clients
// without a certificate, because the kubelet's probes have none. The handler must reject
// them on other paths.
func (f *Files) HTTP() *tls.Config { return f.port(tls.VerifyClientCertIfGiven, "h2", "http/1.1") }

// GRPC returns the configuration of a gRPC port. With mTLS the handshake requires a client
// certificate.
func (f *Files) GRPC() *tls.Config { return f.port(tls.RequireAndVerifyClientCert, "h2") }

func (f *Files) port(clients tls.ClientAuthType, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config := f.current.Load().Clone()
			config.NextProtos = protocols
			if f.VerifiesClients() {
				config.ClientAuth = clients
			}
			return config, nil
		},
	}
}

// verifyName rejects a client whose certificate has none of the allowed names.
func (f *Files) verifyName(state tls.ConnectionState) error {
	isAllowed := func(name string) bool { return slices.Contains(f.options.AllowedNames, name) }
	if len(f.options.AllowedNames) == 0 || len(state.VerifiedChains) == 0 ||
		slices.ContainsFunc(namesOf(state.VerifiedChains[0][0]), isAllowed) {
		return nil
	}
	return errors.New("no name of the client certificate is allowed")
}

// namesOf returns the DNS names, the common name and the URIs (SPIFFE IDs) of the certificate.
func namesOf(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	if cert.Subject.CommonName != "" {
		names = append(names, cert.Subject.CommonName)
	}
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	return names
}
