// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/manager"
	"github.com/weir-dev/weir/internal/webhook/certificate"
)

// webhookFlags are the flags of the validating webhook.
type webhookFlags struct {
	address, certFile, keyFile     string
	secret, service, configuration string
}

func (f *webhookFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "webhook-address", ":9443",
		"where the API server asks whether a policy is valid, in a process with --controllers; empty is nowhere")
	flags.StringVar(&f.certFile, "webhook-cert-file", "", "the certificate of the webhook, in PEM; empty makes one and renews it")
	flags.StringVar(&f.keyFile, "webhook-key-file", "", "its key")
	flags.StringVar(&f.secret, "webhook-secret", "weir-webhook", "the Secret beside the Lease in which a certificate that is made is kept")
	flags.StringVar(&f.service, "webhook-service", "weir-webhook", "the Service beside the Lease by which the API server reaches the webhook")
	flags.StringVar(&f.configuration, "webhook-configuration", "weir",
		"the ValidatingWebhookConfiguration that is told to trust a certificate that is made")
}

// validate refuses flags that would promise what is not done without others.
func (f *webhookFlags) validate() error {
	switch {
	case f.certFile != "" && f.keyFile == "":
		return errors.New("--webhook-cert-file: needs --webhook-key-file")
	case f.keyFile != "" && f.certFile == "":
		return errors.New("--webhook-key-file: needs --webhook-cert-file")
	case f.secret == "" || f.service == "" || f.configuration == "":
		return errors.New("--webhook-secret, --webhook-service, --webhook-configuration: must be names")
	}
	return nil
}

// options are the options of the webhook beside a Lease in that namespace, of a
// process that takes so long to drain.
func (f *webhookFlags) options(namespace string, drainDelay time.Duration) manager.WebhookOptions {
	return manager.WebhookOptions{
		Address: f.address, LameDuck: drainDelay, CertFile: f.certFile, KeyFile: f.keyFile,
		Certificate: certificate.Options{
			Names:     []string{f.service + "." + namespace + ".svc"},
			Namespace: namespace, Secret: f.secret, Configuration: f.configuration,
			Now: time.Now,
		},
	}
}
