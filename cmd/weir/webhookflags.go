// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

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
		"address of the validating webhook, in a process with --controllers; empty serves none")
	flags.StringVar(&f.certFile, "webhook-cert-file", "", "PEM file with the certificate of the webhook (default: issue and renew one)")
	flags.StringVar(&f.keyFile, "webhook-key-file", "", "PEM file with the key of the webhook certificate")
	flags.StringVar(&f.secret, "webhook-secret", "weir-webhook", "Secret of the issued certificate, in the namespace of the Lease")
	flags.StringVar(&f.service, "webhook-service", "weir-webhook", "Service of the webhook, in the namespace of the Lease")
	flags.StringVar(&f.configuration, "webhook-configuration", "weir",
		"ValidatingWebhookConfiguration whose CA bundle is set for the issued certificate")
}

// validate rejects a flag whose companion flag is missing, and invalid names. Unreadable files are
// logged later: they must not stop decisions.
func (f *webhookFlags) validate() error {
	if err := validateAddress("--webhook-address", f.address, ":9443"); err != nil {
		return err
	}
	switch {
	case f.certFile != "" && f.keyFile == "":
		return errors.New("--webhook-cert-file: needs --webhook-key-file")
	case f.keyFile != "" && f.certFile == "":
		return errors.New("--webhook-key-file: needs --webhook-cert-file")
	case f.secret == "" || f.service == "" || f.configuration == "":
		return errors.New("--webhook-secret, --webhook-service, --webhook-configuration: must not be empty")
	}
	for flag, name := range map[string]string{
		"--webhook-secret": f.secret, "--webhook-service": f.service, "--webhook-configuration": f.configuration,
	} {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			return fmt.Errorf("%s %q: %s", flag, name, problem)
		}
	}
	return nil
}

// options returns the options of a webhook in the namespace of the Lease.
func (f *webhookFlags) options(namespace string, drainDelay time.Duration) manager.WebhookOptions {
	return manager.WebhookOptions{
		Address: f.address, DrainDelay: drainDelay, CertFile: f.certFile, KeyFile: f.keyFile,
		Certificate: certificate.Options{
			Names:     []string{f.service + "." + namespace + ".svc"},
			Namespace: namespace, Secret: f.secret, Configuration: f.configuration,
			Now: time.Now,
		},
	}
}
