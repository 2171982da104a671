// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/wiring"
)

const (
	// webhookName is the name of the webhook in its configuration.
	webhookName = "ratelimitpolicies.ratelimit.weir.dev"
	// serviceLabel is the label of the EndpointSlices of a Service.
	serviceLabel = "kubernetes.io/service-name="
)

// inspectCluster checks what the API server knows.
func inspectCluster(ctx context.Context, c *connect.Connection, r *report) {
	_, kube, err := c.Clients()
	if err != nil {
		r.add("cluster", outcomeFailed, err.Error(), "set --kubeconfig or --context; without a cluster, use --address")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, connect.CallTimeout)
	defer cancel()
	inspectPods(ctx, c, kube, r)
	inspectWebhook(ctx, kube, r)
	inspectClients(ctx, c, kube, r)
	if policies, err := c.Objects(); err != nil {
		r.add("cluster", outcomeFailed, err.Error(), "")
	} else {
		inspectWarnings(ctx, policies, r)
	}
}

func inspectWebhook(ctx context.Context, kube kubernetes.Interface, r *report) {
	list, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		r.skip("webhook", err)
		return
	}
	hooks := 0
	for i := range list.Items {
		for j := range list.Items[i].Webhooks {
			if hook := &list.Items[i].Webhooks[j]; hook.Name == webhookName {
				hooks++
				addWebhook(ctx, kube, list.Items[i].Name, hook, r)
			}
		}
	}
	if hooks == 0 {
		r.add("webhook", outcomeWarning, "no webhook is configured", "set the chart value webhook.enabled: without it, invalid policies are stored and only their status reports it")
	}
}

// addWebhook adds the finding of one webhook.
func addWebhook(ctx context.Context, kube kubernetes.Interface, name string, hook *admissionv1.ValidatingWebhook, r *report) {
	expires, err := caExpiry(hook.ClientConfig.CABundle)
	if err != nil {
		r.add("webhook", outcomeFailed, "configuration "+name+": caBundle: "+err.Error(), "see the runbook, Policies are stored without validation")
		return
	}
	if time.Until(expires) <= 0 {
		r.add("webhook", outcomeFailed, fmt.Sprintf("configuration %s: the CA expired on %s", name, expires.Format(time.DateOnly)), "see the runbook, A certificate expires")
		return
	}
	detail := fmt.Sprintf("configuration %s, the CA expires %s", name, expires.Format(time.DateOnly))
	service := hook.ClientConfig.Service
	if service == nil {
		r.add("webhook", outcomeOK, detail, "")
		return
	}
	ready, err := readyAddresses(ctx, kube, service.Namespace, service.Name)
	switch {
	case err != nil:
		r.add("webhook", outcomeNotChecked, detail+"; "+err.Error(), "")
	case ready == 0:
		r.addPassing("webhook", detail+"; no pod serves "+service.Namespace+"/"+service.Name, "see the runbook, Policies are stored without validation")
	default:
		r.add("webhook", outcomeOK, fmt.Sprintf("%s, served by %d pods", detail, ready), "")
	}
}

// caExpiry returns when the last certificate of the bundle expires.
func caExpiry(bundle []byte) (latest time.Time, err error) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return latest, err
		}
		if certificate.NotAfter.After(latest) {
			latest = certificate.NotAfter
		}
	}
	if latest.IsZero() {
		return latest, errors.New("has no certificate; the leader, or cert-manager, fills it in")
	}
	return latest, nil
}

// readyAddresses returns the number of ready addresses of a Service.
func readyAddresses(ctx context.Context, kube kubernetes.Interface, namespace, name string) (int, error) {
	slices, err := kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: serviceLabel + name})
	if err != nil {
		return 0, err
	}
	ready := 0
	for i := range slices.Items {
		for _, endpoint := range slices.Items[i].Endpoints {
			if terminating := endpoint.Conditions.Terminating; terminating != nil && *terminating {
				continue
			}
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready++
			}
		}
	}
	return ready, nil
}

// inspectClients checks that a NetworkPolicy of Weir admits some Namespace.
func inspectClients(ctx context.Context, c *connect.Connection, kube kubernetes.Interface, r *report) {
	restricted, err := kube.NetworkingV1().NetworkPolicies(c.WeirNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=weir"})
	if err != nil {
		r.skip("clients", err)
		return
	}
	if len(restricted.Items) == 0 {
		r.add("clients", outcomeOK, "no NetworkPolicy of Weir restricts them", "")
		return
	}
	namespaces, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: wiring.ClientLabel})
	switch {
	case err != nil:
		r.skip("clients", err)
	case len(namespaces.Items) == 0:
		r.add("clients", outcomeWarning, "no Namespace has the label "+wiring.ClientLabel, "label the Namespaces of gateways and services: kubectl label namespace NAME "+wiring.ClientLabel)
	default:
		var names []string
		for i := range namespaces.Items {
			names = append(names, namespaces.Items[i].Name)
		}
		r.add("clients", outcomeOK, "Namespaces that may ask for decisions: "+firstOf(names), "")
	}
}
