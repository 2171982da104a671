// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weir-dev/weir/internal/tlsfiles"
)

// fileRetry is the time between attempts to load files that do not exist yet.
const fileRetry = time.Second

// Files provides a certificate that another program, such as cert-manager, keeps in
// files. The files need not exist at the start.
type Files struct {
	cert, key string
	logger    *slog.Logger
	current   atomic.Pointer[tlsfiles.Files]
}

// NewFiles returns Files without a certificate; Start loads it.
func NewFiles(cert, key string, logger *slog.Logger) *Files {
	return &Files{cert: cert, key: key, logger: logger}
}

// Start waits for the files, then reloads them when they change, until ctx ends.
func (f *Files) Start(ctx context.Context) error {
	lastLogged := ""
	_ = wait.PollUntilContextCancel(ctx, fileRetry, true, func(context.Context) (bool, error) {
		files, err := tlsfiles.Load(tlsfiles.Options{CertFile: f.cert, KeyFile: f.key, Logger: f.logger})
		if err == nil {
			f.current.Store(files)
		} else if err.Error() != lastLogged {
			lastLogged = err.Error()
			f.logger.Warn("Waiting for the webhook certificate files; everything else continues", "error", err)
		}
		return err == nil, nil
	})
	if files := f.current.Load(); files != nil {
		return files.Start(ctx)
	}
	return nil
}

// GetCertificate implements the field of tls.Config. It fails until Start has loaded
// the files.
func (f *Files) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	files := f.current.Load()
	if files == nil {
		return nil, errNoCertificate
	}
	config, err := files.HTTP().GetConfigForClient(hello)
	if err != nil {
		return nil, err
	}
	return &config.Certificates[0], nil
}
