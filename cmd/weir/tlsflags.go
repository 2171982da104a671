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

// tlsFlags are the flags of TLS on the ports that decide.
type tlsFlags struct {
	certFile, keyFile, clientCAFile string
	clientNames                     []string
}

func (f *tlsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.certFile, "tls-cert-file", "", "the certificate of the HTTP and gRPC ports, in PEM; empty is plain text")
	flags.StringVar(&f.keyFile, "tls-key-file", "", "its key")
	flags.StringVar(&f.clientCAFile, "client-ca-file", "", "the authorities of which clients must have a certificate; empty asks for none")
	flags.StringSliceVar(&f.clientNames, "allowed-client-names", nil,
		"names of which a client's certificate must have one: URI (as SPIFFE ids are), DNS name or common name; none allows all")
}

// validate refuses flags that would promise what is not done without others.
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

// load reads the files; without flags it returns nil.
func (f *tlsFlags) load(logger *slog.Logger) (*tlsfiles.Files, error) {
	if f.certFile == "" {
		return nil, nil //nolint:nilnil // no files are no fault
	}
	files, err := tlsfiles.Load(tlsfiles.Options{
		CertFile: f.certFile, KeyFile: f.keyFile, ClientCAFile: f.clientCAFile, AllowedNames: f.clientNames, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file, --tls-key-file, --client-ca-file: %w", err)
	}
	return files, nil
}
