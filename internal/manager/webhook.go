// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/internal/limiter/server/httpserver"
	"github.com/weir-dev/weir/internal/tlsfiles"
	"github.com/weir-dev/weir/internal/webhook/certificate"
	"github.com/weir-dev/weir/internal/webhook/intake"
	"github.com/weir-dev/weir/internal/webhook/v1alpha1"
)

// listenRetry is the time between attempts to serve the webhook.
const listenRetry = time.Second

// WebhookOptions configure the validating webhook.
type WebhookOptions struct {
	// Address is the address to listen on; empty serves no webhook.
	Address string
	// DrainDelay is how long the webhook still accepts calls after the process starts to
	// stop, so that the API server can switch to other replicas.
	DrainDelay time.Duration
	// CertFile and KeyFile name the files of a certificate that is renewed externally. If
	// they are empty, Weir issues a certificate as Certificate configures.
	CertFile, KeyFile string
	// Certificate configures the issued certificate; Clients and Logger are set here.
	Certificate certificate.Options
	// Expiry exports when the certificate expires, Reviews counts the answers; Run sets both.
	Expiry  *tlsfiles.Expiry
	Reviews *v1alpha1.Reviews
}

// certificates provides the webhook's certificate.
type certificates interface {
	Start(ctx context.Context) error
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
}

// runOnEveryReplica is a manager.Runnable that runs in every process, not only in the
// leader's. It returns no error, since one would end the manager.
type runOnEveryReplica func(ctx context.Context)

// Start implements manager.Runnable.
func (f runOnEveryReplica) Start(ctx context.Context) error {
	f(ctx)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (runOnEveryReplica) NeedLeaderElection() bool { return false }

// addWebhook adds the webhook and its certificate to the manager. Their failures at
// run time are logged and retried; nothing else depends on them.
func addWebhook(ctx context.Context, mgr ctrl.Manager, options *Options, in *intake.Intake) error {
	o, logger := options.Webhook, options.Logger
	config := rest.AddUserAgent(rest.CopyConfig(mgr.GetConfig()), "webhook")
	config.QPS = -1 // the API server has its own flow control
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return err
	}
	validator := &v1alpha1.Validator{
		Namespaces: mgr.GetAPIReader(), Access: authorization.SubjectAccessReviews(), Tenancy: options.Tenancy, Reviews: o.Reviews,
		Sizes: &v1alpha1.RecordSizes{Objects: mgr.GetCache(), Budget: options.Budgets.Namespace},
	}
	if err := validator.Follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	handler, err := v1alpha1.NewHandler(mgr.GetScheme(), validator)
	if err != nil {
		return err
	}
	certs, err := o.certificates(mgr.GetConfig(), logger)
	if err != nil {
		return err
	}
	o.Expiry.Add("webhook", func() time.Time { return expiry(certs) })
	if err := mgr.Add(runOnEveryReplica(func(ctx context.Context) { _ = certs.Start(ctx) })); err != nil {
		return err
	}
	mux := http.NewServeMux()
	for _, path := range []string{v1alpha1.Path, v1alpha1.KeyGroupPath, v1alpha1.ExceptionPath} {
		mux.Handle("POST "+path, in.Handler(handler))
	}
	return mgr.Add(runOnEveryReplica(func(ctx context.Context) {
		serveWebhook(ctx, httpserver.Options{
			Address: o.Address, Handler: mux, DrainDelay: o.DrainDelay, Logger: logger,
			TLS:      &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certs.GetCertificate},
			Listener: in.Listener, ConnContext: in.ConnContext, ReadTimeout: intake.ReadTimeout, SingleRequest: true,
			Port: "webhook", Connections: connlimit.New(connlimit.Options{Bounds: &webhookBounds, Logger: logger}),
		})
	}))
}

// webhookBounds leave the bounds of bodies to the intake.
var webhookBounds = connlimit.Bounds{
	Unserved:  connlimit.ClassBounds{Connections: 1024, Bytes: 128 << 20},
	Served:    connlimit.ClassBounds{Connections: 1024, Bytes: 128 << 20},
	BytesEach: 128 << 20,
}

// expiry returns when the certificate expires; the zero time without one.
func expiry(certs certificates) time.Time {
	current, err := certs.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return time.Time{}
	}
	return current.Leaf.NotAfter
}

func (o WebhookOptions) certificates(config *rest.Config, logger *slog.Logger) (certificates, error) {
	if o.CertFile != "" {
		return certificate.NewFiles(o.CertFile, o.KeyFile, logger), nil
	}
	clients, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "webhook-certificate"))
	if err != nil {
		return nil, err
	}
	o.Certificate.Clients, o.Certificate.Logger = clients, logger
	return certificate.NewRotator(o.Certificate), nil
}

// serveWebhook serves until ctx ends. It restarts the server after an error.
func serveWebhook(ctx context.Context, o httpserver.Options) {
	lastLogged := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		server := httpserver.New(o)
		err := server.Start(ctx)
		if server.Addr() != "" {
			lastLogged = "" // it was served in between, so log the error again
		}
		if err != nil && err.Error() != lastLogged {
			lastLogged = err.Error()
			o.Logger.Error("Failed to serve the webhook of --webhook-address; everything else continues", "error", err)
		}
	}, listenRetry)
}
