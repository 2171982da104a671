// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter/tlsfiles"
)

// tlsFlags are the flags of TLS on the HTTP and gRPC ports.
type tlsFlags struct {
	certFile, keyFile, clientCAFile string
	clientNames                     []string
}

func (f *tlsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.certFile, "tls-cert-file", "", "PEM file with the certificate of the HTTP and gRPC ports, and of the operator port beyond loopback (default: plain text)")
	flags.StringVar(&f.keyFile, "tls-key-file", "", "PEM file with the key of the certificate")
	flags.StringVar(&f.clientCAFile, "client-ca-file", "", "PEM file with the CAs that verify client certificates, which are then required (mTLS; default: off)")
	flags.StringSliceVar(&f.clientNames, "allowed-client-names", nil,
		"allowlist for mTLS: URIs (such as SPIFFE IDs), DNS names or common names of client certificates (default: all)")
}

// validate rejects a flag whose companion flag is missing.
func (f *tlsFlags) validate() error {
	switch {
	case f.certFile != "" && f.keyFile == "":
		return errors.New("--tls-cert-file: needs --tls-key-file")
	case f.keyFile != "" && f.certFile == "":
		return errors.New("--tls-key-file: needs --tls-cert-file")
	case f.clientCAFile != "" && f.certFile == "":
		return errors.New("--client-ca-file: needs --tls-cert-file and --tls-key-file")
	case len(f.clientNames) > 0 && f.clientCAFile == "":
		return errors.New("--allowed-client-names: needs --client-ca-file")
	}
	return nil
}

// load loads the files. It returns nil without --tls-cert-file.
func (f *tlsFlags) load(logger *slog.Logger) (*tlsfiles.Files, error) {
	if f.certFile == "" {
		return nil, nil //nolint:nilnil // plain text is valid
	}
	files, err := tlsfiles.Load(tlsfiles.Options{
		CertFile: f.certFile, KeyFile: f.keyFile, ClientCAFile: f.clientCAFile, AllowedNames: f.clientNames, Logger: logger,
	})
	if err != nil {
		flags := "--tls-cert-file, --tls-key-file"
		if f.clientCAFile != "" {
			flags += ", --client-ca-file"
		}
		return nil, fmt.Errorf("%s: %w", flags, err)
	}
	return files, nil
}
