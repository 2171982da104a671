// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-dev/weir/internal/manager"
	"github.com/weir-dev/weir/internal/reject"
)

// webhookFlags are the flags of the validating webhook.
type webhookFlags struct {
	manager.WebhookOptions
	service string
}

func (f *webhookFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Address, "webhook-address", ":9443",
		"address of the validating webhook, in a process with --controllers; empty serves none")
	flags.StringVar(&f.CertFile, "webhook-cert-file", "", "PEM file with the certificate of the webhook (default: issue and renew one)")
	flags.StringVar(&f.KeyFile, "webhook-key-file", "", "PEM file with the key of the webhook certificate")
	flags.StringVar(&f.Certificate.Secret, "webhook-secret", "weir-webhook", "Secret of the issued certificate, in the namespace of the Lease")
	flags.StringVar(&f.service, "webhook-service", "weir-webhook", "Service of the webhook, in the namespace of the Lease")
	flags.StringVar(&f.Certificate.Configuration, "webhook-configuration", "weir",
		"ValidatingWebhookConfiguration whose CA bundle is set for the issued certificate")
}

// validate rejects a flag whose companion flag is missing, and invalid names. Unreadable files are
// logged later: they must not stop decisions.
func (f *webhookFlags) validate() error {
	c := &f.Certificate
	if c.Secret == "" || f.service == "" || c.Configuration == "" {
		return errors.New("--webhook-secret, --webhook-service, --webhook-configuration: must not be empty")
	}
	return errors.Join(
		validateAddress("--webhook-address", f.Address, ":9443"),
		reject.If(f.CertFile != "" && f.KeyFile == "", "--webhook-cert-file: needs --webhook-key-file"),
		reject.If(f.KeyFile != "" && f.CertFile == "", "--webhook-key-file: needs --webhook-cert-file"),
		reject.Name("--webhook-secret", c.Secret, validation.IsDNS1123Subdomain(c.Secret)),
		reject.Name("--webhook-service", f.service, validation.IsDNS1123Subdomain(f.service)),
		reject.Name("--webhook-configuration", c.Configuration, validation.IsDNS1123Subdomain(c.Configuration)))
}

// options returns the options of a webhook in the namespace of the Lease.
func (f *webhookFlags) options(namespace string, drainDelay time.Duration) manager.WebhookOptions {
	f.DrainDelay = drainDelay
	f.Certificate.Namespace, f.Certificate.Names, f.Certificate.Now = namespace, []string{f.service + "." + namespace + ".svc"}, time.Now
	return f.WebhookOptions
}
