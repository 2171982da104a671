// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Authority is a CA for tests.
type Authority struct {
	// PEM is the certificate of the CA.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns a new CA.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{key: newKey(tb)}
	template := newTemplate(tb, "authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	a.cert, a.PEM = sign(tb, template, template, &a.key.PublicKey, a.key)
	return a
}

// Pool returns a pool with only this CA.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue returns a certificate with the common name and its key, in PEM, for servers and
// clients. Further names may be URIs, IP addresses and DNS names.
func (a *Authority) Issue(tb testing.TB, commonName string, names ...string) (cert, key []byte) {
	tb.Helper()
	return a.IssueUntil(tb, time.Now().Add(time.Hour), commonName, names...)
}

// IssueUntil is Issue with the end of the validity, which may be in the past.
func (a *Authority) IssueUntil(tb testing.TB, end time.Time, commonName string, names ...string) (cert, key []byte) {
	tb.Helper()
	template := newTemplate(tb, commonName)
	template.NotAfter = end
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, name := range names {
		if strings.Contains(name, "://") {
			uri, err := url.Parse(name)
			if err != nil {
				tb.Fatal(err)
			}
			template.URIs = append(template.URIs, uri)
		} else if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	own := newKey(tb)
	_, cert = sign(tb, template, a.cert, &own.PublicKey, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		tb.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func newTemplate(tb testing.TB, commonName string) *x509.Certificate {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		tb.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

func sign(tb testing.TB, template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
