// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles serves TLS with certificates from files, and with new ones as
// soon as the files hold them: nothing is restarted, and connections that are
// open go on. Files that cannot be used leave the last good ones in force.
//
// The files are read again every second instead of being watched, because of the
// volumes they usually are in: there a file is a link to a link that is swapped,
// and reading is the same for every kind of file system.
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

// Options name the files. CertFile, KeyFile and Logger are required.
type Options struct {
	// CertFile and KeyFile are what the server shows, in PEM, intermediate
	// certificates included.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities that clients must have a certificate
	// of; empty asks for none.
	ClientCAFile string
	// AllowedNames are the names of which a client's certificate must have one;
	// none allows every certificate of those authorities.
	AllowedNames []string
	// Logger hears of new files and of ones that cannot be used.
	Logger *slog.Logger
	// Interval is the time between two looks at the files; 0 is a second.
	Interval time.Duration
}

// contents is what the files hold.
type contents struct{ cert, key, clientCA string }

// failure is what is wrong with which contents.
type failure struct {
	contents
	problem string
}

// Files are certificates that follow their files.
type Files struct {
	options Options
	current atomic.Pointer[tls.Config]
	inUse   contents
	// broken is what the last look found, zero if all was well, and looks how
	// often in a row.
	failing  failure
	failures int
}

// Load reads the files. At a start there is no last good one to go on with, so
// files that cannot be used are an error.
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

// Start follows the files until ctx ends.
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

// look takes what the files hold now, if it is new and can be used.
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
	f.options.Logger.Info("Took new TLS files", "certificate", f.options.CertFile,
		"expires", config.Certificates[0].Leaf.NotAfter)
}

// complain says once what is wrong, and only of files that two looks found so:
// one look may meet files of which the second is being written.
func (f *Files) logUnusable(found failure) {
	if found != f.failing {
		f.failing, f.failures = found, 0
	}
	if f.failures++; f.failures == 2 {
		f.options.Logger.Error("New TLS files cannot be used, the last good ones stay in force", "error", found.problem)
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

// config makes a configuration of the contents, without what differs between
// ports.
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
		return nil, fmt.Errorf("%s: holds no certificate", f.options.ClientCAFile)
	}
	config.VerifyConnection = f.verifyName
	// A resumed session would outlive the authority it was let in by.
	config.SessionTicketsDisabled = true
	return config, nil
}

// VerifiesClients reports whether clients must have a certificate.
func (f *Files) VerifiesClients() bool { return f.options.ClientCAFile != "" }

// HTTP returns the configuration of an HTTP port. A client that shows no
// certificate is let in: the kubelet's probes have none, so the server has to tell
// who may ask what.
func (f *Files) HTTP() *tls.Config { return f.port(tls.VerifyClientCertIfGiven, "h2", "http/1.1") }

// GRPC returns the configuration of a gRPC port.
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

// verifyName refuses a client whose verified certificate has none of the allowed
// names.
func (f *Files) verifyName(state tls.ConnectionState) error {
	if len(f.options.AllowedNames) == 0 || len(state.VerifiedChains) == 0 {
		return nil
	}
	for _, name := range namesOf(state.VerifiedChains[0][0]) {
		if slices.Contains(f.options.AllowedNames, name) {
			return nil
		}
	}
	return errors.New("no name of the client's certificate is allowed")
}

// namesOf are the URIs (SPIFFE ids), DNS names and the common name.
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
