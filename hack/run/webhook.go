// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weir-dev/weir/config/webhook"
)

// webhookByURL returns the webhook of the release, called by URL: this API server resolves no
// Services. envtest adds a certificate.
func webhookByURL(ctx context.Context) (envtest.WebhookInstallOptions, error) {
	configuration, err := webhook.Configuration()
	if err != nil {
		return envtest.WebhookInstallOptions{}, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return envtest.WebhookInstallOptions{}, err
	}
	for i := range configuration.Webhooks {
		config := &configuration.Webhooks[i].ClientConfig
		url := "https://" + address + *config.Service.Path
		*config = admissionregistrationv1.WebhookClientConfig{URL: &url}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return envtest.WebhookInstallOptions{}, err
	}
	number, err := strconv.Atoi(port)
	return envtest.WebhookInstallOptions{
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{configuration},
		LocalServingHost:   host, LocalServingPort: number,
	}, err
}
