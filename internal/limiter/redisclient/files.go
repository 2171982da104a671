// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// keepAlive is the time between signs of life on a connection nothing is sent on.
const keepAlive = 5 * time.Minute

// Files are where a client finds what must not stand in a URL, which everybody sees
// who sees the command line. An empty path is none. They are read for each new
// connection, so a password or a certificate that is changed needs no restart.
type Files struct {
	// Username and Password are of the ACL user; without Username it is the default
	// one. What follows the first line is ignored.
	Username, Password string
	// CA are the authorities the server must have its certificate of, in PEM; without
	// it, those of the system.
	CA string
	// Cert and Key are the client's own certificate, in PEM.
	Cert, Key string
}

// New is New with the URL completed by the files.
func (f Files) New(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	parsed, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("not a URL") // the parser's error repeats the URL, password and all
	}
	if err := f.fit(parsed); err != nil {
		return nil, err
	}
	switch parsed.Scheme {
	case "redis", "rediss":
		return newSingle(parsed, timeout, f)
	case "redis-cluster", "rediss-cluster":
		return newCluster(parsed, timeout, f)
	case "redis-sentinel", "rediss-sentinel":
		return nil, fmt.Errorf("scheme %s:// is not supported yet", parsed.Scheme)
	default:
		return nil, fmt.Errorf("scheme %q: want redis://, rediss://, redis-cluster:// or rediss-cluster://", parsed.Scheme)
	}
}

// fit says why the files cannot be used, with that URL or at all.
func (f Files) fit(parsed *url.URL) error {
	switch {
	case (f.Username != "" || f.Password != "") && parsed.User != nil:
		return errors.New("the URL has a user, and so do the files: choose one")
	case f.Username != "" && f.Password == "":
		return errors.New("a file with a user needs one with a password")
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("a file with a certificate and one with its key need each other")
	case (f.CA != "" || f.Cert != "") && !strings.HasPrefix(parsed.Scheme, "rediss"):
		return errors.New("files with certificates need rediss:// or rediss-cluster://")
	}
	// What is wrong now is better said now than by each connection.
	if _, _, err := f.credentials(); err != nil {
		return err
	}
	_, err := f.tlsConfig(&tls.Config{MinVersion: tls.VersionTLS12})
	return err
}

// credentialsProvider is nil where those of the URL count.
func (f Files) credentialsProvider() func(context.Context) (username, password string, err error) {
	if f.Password == "" {
		return nil
	}
	return func(context.Context) (username, password string, err error) { return f.credentials() }
}

func (f Files) credentials() (username, password string, err error) {
	for _, file := range []struct {
		path string
		into *string
	}{{f.Username, &username}, {f.Password, &password}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return "", "", err
		}
		*file.into, _, _ = strings.Cut(string(data), "\n")
		*file.into = strings.TrimSuffix(*file.into, "\r")
		if *file.into == "" {
			return "", "", fmt.Errorf("%s: its first line is empty", file.path)
		}
	}
	return username, password, nil
}

// dialer is nil where the library's own will do.
func (f Files) dialer(base *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if f.CA == "" && f.Cert == "" {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		config, err := f.tlsConfig(base)
		if err != nil {
			return nil, err
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}, Config: config}
		return dialer.DialContext(ctx, network, addr)
	}
}

// tlsConfig is base with what the files hold now.
func (f Files) tlsConfig(base *tls.Config) (*tls.Config, error) {
	config := base.Clone()
	if f.CA != "" {
		data, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s: contains no certificate", f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", f.Cert, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
