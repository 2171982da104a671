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

	"github.com/weir-dev/weir/internal/limiter/tlsfiles"
)

// fileRetry is the time between two looks for files that are not there yet.
const fileRetry = time.Second

// Files shows a certificate that somebody else keeps in files, such as
// cert-manager. They need not be there at the start.
type Files struct {
	cert, key string
	logger    *slog.Logger
	current   atomic.Pointer[tlsfiles.Files]
}

// NewFiles returns what shows the certificate in the files, once Start has found
// it.
func NewFiles(cert, key string, logger *slog.Logger) *Files {
	return &Files{cert: cert, key: key, logger: logger}
}

// Start follows the files until ctx ends.
func (f *Files) Start(ctx context.Context) error {
	lastLogged := ""
	_ = wait.PollUntilContextCancel(ctx, fileRetry, true, func(context.Context) (bool, error) {
		files, err := tlsfiles.Load(tlsfiles.Options{CertFile: f.cert, KeyFile: f.key, Logger: f.logger})
		if err == nil {
			f.current.Store(files)
		} else if err.Error() != lastLogged {
			lastLogged = err.Error()
			f.logger.Warn("Waiting for the certificate of the webhook; everything else goes on", "error", err)
		}
		return err == nil, nil
	})
	if files := f.current.Load(); files != nil {
		return files.Start(ctx)
	}
	return nil
}

// GetCertificate is for tls.Config.
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
