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
	// syncTimeout bounds one look, which is a handful of requests.
	syncTimeout = 10 * time.Second
	// jitter keeps replicas from looking at the same time.
	jitter = 0.2
)

// errNoCertificate is what handshakes fail with until there is a certificate.
var errNoCertificate = errors.New("the webhook has no certificate yet")

// Options say what for and where. All but the times are required.
type Options struct {
	// Names are the names and addresses the API server reaches the webhook by.
	Names []string
	// Namespace and Secret are where the certificate is kept, with the authority.
	Namespace, Secret string
	// Configuration is the ValidatingWebhookConfiguration that is told whom to trust.
	Configuration string
	// Clients reach the API server; nothing is cached, so that no right to list is
	// needed.
	Clients kubernetes.Interface
	// Logger hears of new certificates, and of what is in their way.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Interval is the time between two looks at the Secret and the configuration;
	// 0 is 10 seconds.
	Interval time.Duration
	// CALifetime and Lifetime are how long an authority and a certificate are valid;
	// 0 is a year and 90 days. They are replaced when two thirds have passed.
	CALifetime, Lifetime time.Duration
}

// Rotator makes the certificate, keeps it new, and makes the API server trust it.
// Any number of them share one Secret: each does what is left to do, and whoever
// comes second sees that it is done.
//
// A new authority is trusted before anything it issued is shown: it joins the old
// one in the Secret first, then in the configuration, and issues once it was seen
// there. The old one stays trusted until it ends.
type Rotator struct {
	options    Options
	current    atomic.Pointer[tls.Certificate]
	lastLogged string // the last complaint
}

// NewRotator returns a rotator that has not looked yet.
func NewRotator(o Options) *Rotator {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.CALifetime = cmp.Or(o.CALifetime, defaultCALifetime)
	o.Lifetime = cmp.Or(o.Lifetime, defaultLifetime)
	return &Rotator{options: o}
}

// GetCertificate is for tls.Config.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := r.current.Load(); current != nil {
		return current, nil
	}
	return nil, errNoCertificate
}

// Start looks until ctx ends. What fails is tried again at the next look.
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

// isLostRace reports whether another was faster, so that a second look may find
// everything done.
func isLostRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// logProblem says once what is wrong.
func (r *Rotator) logProblem(err error) {
	lastLogged := ""
	if err != nil {
		lastLogged = err.Error()
	}
	if lastLogged != r.lastLogged && err != nil {
		r.options.Logger.Warn("The certificate of the webhook cannot be kept up; everything else goes on", "error", err)
	}
	r.lastLogged = lastLogged
}

// look does what is to be done now. The configuration is read before the Secret: a
// write by what the Secret lastLogged then conflicts if another has written meanwhile
// what it says now.
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

// renew returns the contents as they are to be. The API server either trusts all
// authorities there are already, or a certificate in good order is left alone.
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

// due reports whether two thirds of the life are over.
func needsRenewal(c *x509.Certificate, life time.Duration, now time.Time) bool {
	return now.After(c.NotAfter.Add(-life / 3))
}

// use shows the certificate from the next handshake on.
func (r *Rotator) serve(c contents) {
	current := r.current.Load()
	if c.serving == nil || current != nil && current.Leaf.Equal(c.serving.Leaf) {
		return
	}
	r.current.Store(c.serving)
	r.options.Logger.Info("Took a certificate for the webhook", "expires", c.serving.Leaf.NotAfter)
}

// secret returns the Secret, or an empty one that does not exist yet.
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

// store writes the Secret unless it has changed since it was read.
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

// configuration returns the webhook configuration, nil if there is none: then
// nobody asks the webhook, and nobody is to be told whom to trust.
func (r *Rotator) readConfiguration(ctx context.Context) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	c, err := r.options.Clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Get(ctx, r.options.Configuration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // see above
	}
	return c, err
}

// trusts reports whether every webhook of the configuration is told those
// authorities and no others.
func trustsBundle(c *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) bool {
	return c == nil || !slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
		return !bytes.Equal(w.ClientConfig.CABundle, bundle)
	})
}

// inject tells the API server whom to trust. It touches nothing else, so that no
// field is lost that this release does not know.
func (r *Rotator) updateBundle(ctx context.Context, c *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// Naming the version makes this a conflict if somebody else was faster.
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
		r.options.Logger.Info("Told the API server whom to trust", "configuration", c.Name)
	}
	return err
}
