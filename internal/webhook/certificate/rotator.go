// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// +kubebuilder:rbac:groups="",resources=secrets,namespace=weir-system,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=weir-webhook,namespace=weir-system,verbs=get;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=weir,verbs=get;patch

const (
	defaultInterval   = 10 * time.Second
	defaultCALifetime = 365 * 24 * time.Hour
	defaultLifetime   = 90 * 24 * time.Hour
	// syncTimeout bounds one sync, which is a handful of requests.
	syncTimeout = 10 * time.Second
	// jitter keeps replicas from syncing at the same time.
	jitter = 0.2
)

// errNoCertificate fails handshakes until there is a certificate.
var errNoCertificate = errors.New("the webhook has no certificate yet")

// Options configure a Rotator. All but Interval, CALifetime and Lifetime are required.
type Options struct {
	// Names are the DNS names and IP addresses at which the API server calls the webhook.
	Names []string
	// Namespace and Secret locate the Secret of the certificate and its CAs.
	Namespace, Secret string
	// Configuration is the ValidatingWebhookConfiguration whose CA bundles are set.
	Configuration string
	// Clients call the API server. Nothing is cached, so no permission to list is
	// needed.
	Clients kubernetes.Interface
	// Logger logs new certificates, and failures when they change.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Interval is the time between syncs with the Secret and the configuration
	// (default 10 seconds).
	Interval time.Duration
	// CALifetime and Lifetime are how long a CA and a certificate are valid (default 365
	// and 90 days). They are renewed after two thirds of that.
	CALifetime, Lifetime time.Duration
}

// Rotator issues the certificate, renews it, and sets the CA bundle in the webhook
// configuration. Any number of rotators share one Secret: each completes the
// missing steps, and one that loses a race finds them done.
//
// A new CA is trusted before it issues: it joins the old one first in the Secret,
// then in the configuration, and issues once it was read back from there. The old CA
// stays trusted until it expires.
type Rotator struct {
	options    Options
	current    atomic.Pointer[tls.Certificate]
	lastLogged string // the last failure logged
}

// NewRotator returns a Rotator without a certificate; Start provides it.
func NewRotator(o Options) *Rotator {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.CALifetime = cmp.Or(o.CALifetime, defaultCALifetime)
	o.Lifetime = cmp.Or(o.Lifetime, defaultLifetime)
	return &Rotator{options: o}
}

// GetCertificate implements the field of tls.Config. It fails until there is a
// certificate.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := r.current.Load(); current != nil {
		return current, nil
	}
	return nil, errNoCertificate
}

// Start syncs every Interval until ctx ends. A failure is logged and retried at the
// next sync.
func (r *Rotator) Start(ctx context.Context) error {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		syncCtx, cancel := context.WithTimeout(ctx, syncTimeout)
		defer cancel()
		err := retry.OnError(retry.DefaultBackoff, isLostRace, func() error { return r.sync(syncCtx) })
		if ctx.Err() == nil {
			r.logProblem(err)
		}
	}, r.options.Interval, jitter, true)
	return nil
}

// isLostRace reports whether another replica was faster, so that a second sync may
// find everything done.
func isLostRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// logProblem logs a failure, once until it changes.
func (r *Rotator) logProblem(err error) {
	lastLogged := ""
	if err != nil {
		lastLogged = err.Error()
	}
	if lastLogged != r.lastLogged && err != nil {
		r.options.Logger.Warn("Failed to maintain the webhook certificate; everything else continues", "error", err)
	}
	r.lastLogged = lastLogged
}

// sync completes the missing steps. It reads the configuration before the Secret: if
// another replica changes both in between, the write of the bundle conflicts.
func (r *Rotator) sync(ctx context.Context) error {
	configuration, configErr := r.readConfiguration(ctx)
	secret, err := r.readSecret(ctx)
	if err != nil {
		return errors.Join(err, configErr)
	}
	stored := parseContents(secret.Data)
	r.serve(stored)
	renewed, err := r.renew(stored, configErr == nil && trustsBundle(configuration, stored.bundle()))
	if err != nil {
		return errors.Join(err, configErr)
	}
	data, err := renewed.encode()
	if err != nil {
		return errors.Join(err, configErr)
	}
	if !bytes.Equal(data[caEntry], secret.Data[caEntry]) || renewed.serving != stored.serving {
		if err := r.writeSecret(ctx, secret, data); err != nil {
			return errors.Join(err, configErr)
		}
		r.serve(renewed)
	}
	if configErr != nil || trustsBundle(configuration, renewed.bundle()) {
		return configErr
	}
	return r.updateBundle(ctx, configuration, renewed.bundle())
}

// renew returns the contents after the renewals that are due. trusted reports that
// the API server trusts all CAs; until then a valid certificate is kept.
func (r *Rotator) renew(c contents, trusted bool) (contents, error) {
	now := r.options.Now()
	c.cas = slices.DeleteFunc(slices.Clone(c.cas), func(a *x509.Certificate) bool { return !now.Before(a.NotAfter) })
	if len(c.cas) == 0 || c.signer == nil || needsRenewal(c.cas[0], r.options.CALifetime, now) {
		var err error
		if c, err = c.withNewCA(r.options.Configuration+" webhook authority", now, r.options.CALifetime); err != nil {
			return contents{}, err
		}
		trusted = false
	}
	if c.verify(r.options.Names, now) == nil &&
		(!trusted || c.isIssuedByNewestCA() && !needsRenewal(c.serving.Leaf, r.options.Lifetime, now)) {
		return c, nil
	}
	return c.withNewCertificate(r.options.Names, now, r.options.Lifetime)
}

// needsRenewal reports whether two thirds of the lifetime have passed.
func needsRenewal(c *x509.Certificate, life time.Duration, now time.Time) bool {
	return now.After(c.NotAfter.Add(-life / 3))
}

// serve uses the certificate from the next handshake on.
func (r *Rotator) serve(c contents) {
	current := r.current.Load()
	if c.serving == nil || current != nil && current.Leaf.Equal(c.serving.Leaf) {
		return
	}
	r.current.Store(c.serving)
	r.options.Logger.Info("Loaded a new webhook certificate", "expires", c.serving.Leaf.NotAfter)
}

// readSecret returns the Secret, or a new one without data if it does not exist.
func (r *Rotator) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret, err := r.options.Clients.CoreV1().Secrets(r.options.Namespace).Get(ctx, r.options.Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: r.options.Secret},
			Type:       corev1.SecretTypeTLS,
		}, nil
	}
	return secret, err
}

// writeSecret writes the Secret unless it has changed since it was read.
func (r *Rotator) writeSecret(ctx context.Context, secret *corev1.Secret, data map[string][]byte) error {
	secrets := r.options.Clients.CoreV1().Secrets(r.options.Namespace)
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	maps.Copy(secret.Data, data)
	var err error
	if secret.ResourceVersion == "" {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	return err
}

// readConfiguration returns the webhook configuration, or nil if it does not exist:
// then no webhook is called, and there is no CA bundle to set.
func (r *Rotator) readConfiguration(ctx context.Context) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	c, err := r.options.Clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Get(ctx, r.options.Configuration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // see above
	}
	return c, err
}

// trustsBundle reports whether every webhook of the configuration has exactly this CA
// bundle.
func trustsBundle(c *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) bool {
	return c == nil || !slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
		return !bytes.Equal(w.ClientConfig.CABundle, bundle)
	})
}

// updateBundle sets the CA bundle of every webhook. It patches nothing else, so that
// fields that this release does not know are kept.
func (r *Rotator) updateBundle(ctx context.Context, c *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// The resource version turns a lost race into a conflict.
	operations := []operation{{"replace", "/metadata/resourceVersion", c.ResourceVersion}}
	for i := range c.Webhooks {
		operations = append(operations, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), bundle})
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	_, err = r.options.Clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Patch(ctx, c.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err == nil {
		r.options.Logger.Info("Updated the CA bundle of the webhook configuration", "configuration", c.Name)
	}
	return err
}
