// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// keepAlive is the interval of TCP keep-alives on an idle connection.
const keepAlive = 5 * time.Minute

// Files are the paths of files with credentials and certificates, which must not be part of
// a URL because the command line is visible to others. Each field is optional. The files
// are read for each new connection, so a changed password or certificate needs no restart.
type Files struct {
	// Username and Password are of the ACL user (default: the default user). Only the
	// first line is read.
	Username, Password string
	// Command prints the credentials of the ACL user instead, and new ones before they expire. It must be started.
	Command *CredentialsCommand
	// SentinelUsername and SentinelPassword are of the ACL user of the sentinels (default:
	// no credentials). Credentials of the data nodes are never sent to a sentinel.
	SentinelUsername, SentinelPassword string
	// CA holds the CAs that verify all servers, in PEM (default: system roots).
	CA string
	// Cert and Key are the client certificate and its key, in PEM.
	Cert, Key string
	// ServerName is the name, not a file, that the certificate of every server must have
	// (default: the host of the connection, or in a cluster the host of the URL).
	ServerName string
}

// New is like the function New, with the credentials and certificates of the files.
func (f Files) New(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	if hidesPassword(rawURL) {
		return nil, errUnescaped
	}
	parsed, err := url.Parse(rawURL)
	if err != nil && strings.Contains(rawURL, "@") {
		return nil, errUnescaped
	} else if err != nil {
		return nil, errors.New("not a URL") // the parser's error repeats the URL with its password
	}
	if err := f.validate(parsed); err != nil {
		return nil, err
	}
	switch parsed.Scheme {
	case "redis", "rediss":
		return newSingle(parsed, timeout, f)
	case "redis-cluster", "rediss-cluster":
		return newCluster(parsed, timeout, f)
	case "redis-sentinel", "rediss-sentinel":
		return newSentinel(parsed, timeout, f)
	default:
		return nil, fmt.Errorf("scheme %q: want redis://, redis-cluster:// or redis-sentinel://, or with TLS rediss://, rediss-cluster:// or rediss-sentinel://", parsed.Scheme)
	}
}

// errUnescaped is the error of a URL whose user or password has characters with a meaning in URLs.
var errUnescaped = errors.New("not a URL: in user and password write %25 for %, %23 for #, %2F for /, %3F for ? and %40 for @, or use --redis-password-file")

// hidesPassword reports whether the parser would take the end of a password for a path, a query or a fragment. Only further
// addresses may be written with "@", by mistake.
func hidesPassword(rawURL string) bool {
	_, rest, _ := strings.Cut(rawURL, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		return false
	}
	ofURL, _, _ := strings.Cut(rest[end:], "addr=")
	return strings.Contains(ofURL, "@")
}

// validate returns an error if the files cannot be used with the URL, or cannot be read.
func (f Files) validate(parsed *url.URL) error {
	if err := errors.Join(f.validateCommand(parsed), f.validateCredentials(parsed), f.validateTLS(parsed)); err != nil {
		return err
	}
	// Report unreadable files now, and not for each connection.
	for _, files := range []Files{f, f.ofSentinels()} {
		if _, _, err := files.credentials(); err != nil {
			return err
		}
	}
	_, err := f.tlsConfig(&tls.Config{MinVersion: tls.VersionTLS12})
	return err
}

func (f Files) validateCredentials(parsed *url.URL) error {
	switch {
	case (f.Username != "" || f.Password != "") && parsed.User != nil:
		return errors.New("credentials are in both the URL and --redis-password-file: use one of them")
	case f.Username != "" && f.Password == "":
		return errors.New("--redis-username-file needs --redis-password-file")
	case f.SentinelUsername != "" && f.SentinelPassword == "":
		return errors.New("--redis-sentinel-username-file needs --redis-sentinel-password-file")
	case f.SentinelPassword != "" && !strings.HasSuffix(parsed.Scheme, "-sentinel"):
		return errors.New("--redis-sentinel-password-file needs redis-sentinel:// or rediss-sentinel://")
	}
	return nil
}

func (f Files) validateCommand(parsed *url.URL) error {
	switch {
	case f.Command != nil && (f.Username != "" || f.Password != ""):
		return errors.New("--redis-credentials-command and --redis-password-file: use one of them")
	case f.Command != nil && parsed.User != nil:
		return errors.New("credentials are in both the URL and --redis-credentials-command: use one of them")
	}
	return nil
}

func (f Files) validateTLS(parsed *url.URL) error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--redis-cert-file and --redis-key-file need each other")
	case (f.CA != "" || f.Cert != "") && !usesTLS(parsed):
		return errors.New("--redis-ca-file and --redis-cert-file need rediss://, rediss-cluster:// or rediss-sentinel://")
	case f.ServerName != "" && !usesTLS(parsed):
		return errors.New("--redis-server-name needs rediss://, rediss-cluster:// or rediss-sentinel://")
	}
	return nil
}

// usesTLS reports whether the scheme of the URL is one with TLS.
func usesTLS(parsed *url.URL) bool { return strings.HasPrefix(parsed.Scheme, "rediss") }

// ofSentinels returns the files with the credentials of the sentinels.
func (f Files) ofSentinels() Files {
	return Files{Username: f.SentinelUsername, Password: f.SentinelPassword}
}

// credentialsProvider returns nil if the URL has the credentials.
func (f Files) credentialsProvider() func(context.Context) (username, password string, err error) {
	if f.Password == "" {
		return nil
	}
	return func(context.Context) (username, password string, err error) { return f.credentials() }
}

func (f Files) credentials() (username, password string, err error) {
	for _, file := range []struct {
		path string
		text *string
	}{{f.Username, &username}, {f.Password, &password}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return "", "", err
		}
		*file.text, _, _ = strings.Cut(string(data), "\n")
		*file.text = strings.TrimSuffix(*file.text, "\r")
		if *file.text == "" {
			return "", "", fmt.Errorf("%s: the first line is empty", file.path)
		}
	}
	return username, password, nil
}

// tlsConfig returns base with the server name and with the certificates that the files hold
// now.
func (f Files) tlsConfig(base *tls.Config) (*tls.Config, error) {
	config := base.Clone()
	if f.ServerName != "" {
		config.ServerName = f.ServerName
	}
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
