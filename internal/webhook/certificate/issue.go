// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// The keys of the Secret. The keys of the certificate are as in Secrets of type
// kubernetes.io/tls.
const (
	caEntry          = "ca.crt"
	caKeyEntry       = "ca.key"
	certificateEntry = "tls.crt"
	keyEntry         = "tls.key"
)

// skew is how far the clock of a TLS client may be behind ours.
const skew = time.Hour

// contents is the usable content of the Secret.
type contents struct {
	// cas are the CAs that the API server has to trust, newest first. Only the newest
	// issues certificates.
	cas []*x509.Certificate
	// signer is the key of the newest CA, nil if it is missing.
	signer crypto.Signer
	// serving is the certificate of the webhook, nil if it is missing.
	serving *tls.Certificate
}

// parseContents parses the data of the Secret. Invalid certificates and keys count as
// missing and will be replaced.
func parseContents(data map[string][]byte) (c contents) {
	for rest := data[caEntry]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil && ca.IsCA {
			c.cas = append(c.cas, ca)
		}
	}
	if block, _ := pem.Decode(data[caKeyEntry]); block != nil && len(c.cas) > 0 {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			c.signer = signerOf(c.cas[0], key)
		}
	}
	if pair, err := tls.X509KeyPair(data[certificateEntry], data[keyEntry]); err == nil {
		c.serving = &pair
	}
	return c
}

// signerOf returns the key if it belongs to the certificate, else nil.
func signerOf(cert *x509.Certificate, key any) crypto.Signer {
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(cert.PublicKey) {
		return nil
	}
	return signer
}

// encode returns the data of the Secret.
func (c contents) encode() (map[string][]byte, error) {
	caKey, err := encodeKey(c.signer)
	if err != nil {
		return nil, err
	}
	key, err := encodeKey(c.serving.PrivateKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		caEntry:          c.bundle(),
		caKeyEntry:       caKey,
		certificateEntry: encodePEM("CERTIFICATE", c.serving.Certificate[0]),
		keyEntry:         key,
	}, nil
}

// bundle returns the CA bundle for the API server, in PEM.
func (c contents) bundle() []byte {
	var b bytes.Buffer
	for _, ca := range c.cas {
		b.Write(encodePEM("CERTIFICATE", ca.Raw))
	}
	return b.Bytes()
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encodePEM("PRIVATE KEY", der), err
}

// verify returns an error unless the certificate is valid now for all the names.
func (c contents) verify(names []string, now time.Time) error {
	if c.serving == nil {
		return errors.New("no certificate")
	}
	roots := x509.NewCertPool()
	for _, ca := range c.cas {
		roots.AddCert(ca)
	}
	for _, name := range names {
		if _, err := c.serving.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

// isIssuedByNewestCA reports whether the newest CA issued the certificate.
func (c contents) isIssuedByNewestCA() bool {
	return c.serving.Leaf.CheckSignatureFrom(c.cas[0]) == nil
}

// withNewCA returns the contents with a new CA in front of the others.
func (c contents) withNewCA(name string, now time.Time, life time.Duration) (contents, error) {
	template, err := newTemplate(name, now, now.Add(life))
	if err != nil {
		return contents{}, err
	}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	ca, key, err := issue(template, template, nil)
	if err != nil {
		return contents{}, err
	}
	c.cas = append([]*x509.Certificate{ca}, c.cas...)
	c.signer = key
	return c, nil
}

// withNewCertificate returns the contents with a new certificate for the names. The
// newest CA issues it, and it expires no later than that CA.
func (c contents) withNewCertificate(names []string, now time.Time, life time.Duration) (contents, error) {
	until := now.Add(life)
	if end := c.cas[0].NotAfter; until.After(end) {
		until = end
	}
	template, err := newTemplate(names[0], now, until)
	if err != nil {
		return contents{}, err
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf, key, err := issue(template, c.cas[0], c.signer)
	if err != nil {
		return contents{}, err
	}
	c.serving = &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	return c, nil
}

func newTemplate(name string, now, until time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName(name)},
		NotBefore: now.Add(-skew), NotAfter: until, BasicConstraintsValid: true,
	}, err
}

// commonName truncates a name to the 64 characters that a common name may have. No
// client verifies it.
func commonName(name string) string { return name[:min(len(name), 64)] }

// issue creates a key and its certificate, signed by the parent's signer, or
// self-signed if signer is nil.
func issue(template, parent *x509.Certificate, signer crypto.Signer) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), cmp.Or[crypto.Signer](signer, key))
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}
