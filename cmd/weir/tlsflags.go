// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/reject"
	"github.com/weir-dev/weir/internal/tlsfiles"
)

// tlsFlags are the flags of TLS on the HTTP and gRPC ports.
type tlsFlags struct{ tlsfiles.Options }

func (f *tlsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.CertFile, "tls-cert-file", "", "PEM file with the certificate of the HTTP and gRPC ports, and of the operator port beyond loopback (default: plain text)")
	flags.StringVar(&f.KeyFile, "tls-key-file", "", "PEM file with the key of the certificate")
	flags.StringVar(&f.ClientCAFile, "client-ca-file", "", "PEM file with the CAs that verify client certificates, which are then required (mTLS; default: off)")
	flags.StringSliceVar(&f.AllowedNames, "allowed-client-names", nil,
		"allowlist for mTLS: URIs (such as SPIFFE IDs), DNS names or common names of client certificates (default: all)")
}

// validate rejects a flag whose companion flag is missing.
func (f *tlsFlags) validate() error {
	return errors.Join(
		reject.If(f.CertFile != "" && f.KeyFile == "", "--tls-cert-file: needs --tls-key-file"),
		reject.If(f.KeyFile != "" && f.CertFile == "", "--tls-key-file: needs --tls-cert-file"),
		reject.If(f.ClientCAFile != "" && f.CertFile == "", "--client-ca-file: needs --tls-cert-file and --tls-key-file"),
		reject.If(len(f.AllowedNames) > 0 && f.ClientCAFile == "", "--allowed-client-names: needs --client-ca-file"))
}

// load loads the files. It returns nil without --tls-cert-file.
func (f *tlsFlags) load(logger *slog.Logger) (*tlsfiles.Files, error) {
	if f.CertFile == "" {
		return nil, nil //nolint:nilnil // plain text is valid
	}
	f.Logger = logger
	files, err := tlsfiles.Load(f.Options)
	if err != nil {
		flags := "--tls-cert-file, --tls-key-file"
		if f.ClientCAFile != "" {
			flags += ", --client-ca-file"
		}
		return nil, fmt.Errorf("%s: %w", flags, err)
	}
	return files, nil
}
