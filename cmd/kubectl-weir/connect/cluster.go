// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/reject"
)

const (
	// PodLabel selects the pods that decide.
	PodLabel = "ratelimit.weir.dev/decisions=true"
	// AccountLabel is the label of the accounts of the chart value access.
	AccountLabel = "ratelimit.weir.dev/access"
	// AccountLabelValue is its value.
	AccountLabelValue = "true"
	// operatorPort is the default port of --operator-address.
	operatorPort = 8083
	// audience is the audience that Weir requires of a token, tokenSeconds its life, the shortest
	// that the API server issues.
	audience     = "weir"
	tokenSeconds = 600
	// forwardTimeout bounds the start of a port-forward.
	forwardTimeout = 15 * time.Second
)

// connectToCluster forwards a port to a pod of Weir until ctx ends, and sets the client's address,
// user and, with withToken, token.
func (c *Connection) connectToCluster(ctx context.Context, api *Client, withToken bool) error {
	config, kube, err := c.Clients()
	if err != nil {
		return fmt.Errorf("%w; without a cluster, use --address and --token-file", err)
	}
	pod, err := c.readyPod(ctx, kube)
	if err != nil {
		return err
	}
	if withToken {
		if api.account, api.token, err = c.accountToken(ctx, kube); err != nil {
			return err
		}
		api.user = cmp.Or(UserOf(ctx, kube), api.user)
	}
	port, err := forward(ctx, kube, config, c.WeirNamespace, pod)
	if err != nil {
		return fmt.Errorf("cannot forward a port to pod %s in %s: %w; the chart value access grants it", pod, c.WeirNamespace, err)
	}
	api.URL = "http://127.0.0.1:" + strconv.Itoa(int(port))
	api.Hint = fmt.Sprintf("port %d of pod %s in %s (--operator-address)", operatorPort, pod, c.WeirNamespace)
	return nil
}

// RestConfig returns the API server. Without any kubeconfig, kubectl tries localhost:8080, which would only
// confuse.
func (c *Connection) RestConfig() (*rest.Config, error) {
	config, err := c.Kube.ToRESTConfig()
	if err != nil {
		return nil, reject.Wrap("--kubeconfig", err)
	}
	raw, err := c.Kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, reject.Wrap("--kubeconfig", err)
	}
	if len(raw.Clusters) == 0 && config.Host == clientcmd.ClusterDefaults.Server {
		return nil, errors.New("--kubeconfig: names no cluster")
	}
	return config, nil
}

// Clients returns the configuration and the typed client of the cluster.
func (c *Connection) Clients() (*rest.Config, kubernetes.Interface, error) {
	config, err := c.RestConfig()
	if err != nil {
		return nil, nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	return config, kube, reject.Wrap("--kubeconfig", err)
}

// Objects returns the client for objects of any kind.
func (c *Connection) Objects() (dynamic.Interface, error) {
	config, err := c.RestConfig()
	if err != nil {
		return nil, err
	}
	kube, err := dynamic.NewForConfig(config)
	return kube, reject.Wrap("--kubeconfig", err)
}

// ObjectsOf returns the client for a resource of Weir.
func (c *Connection) ObjectsOf(resource string) (dynamic.NamespaceableResourceInterface, error) {
	objects, err := c.Objects()
	if err != nil {
		return nil, err
	}
	return objects.Resource(v1alpha1.GroupVersion.WithResource(resource)), nil
}

// Get reads an object of the cluster.
func Get(ctx context.Context, from dynamic.ResourceInterface, name string, into any) error {
	object, err := from.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// UserOf returns the name of the caller, or "" if the API server does not report it.
func UserOf(ctx context.Context, kube kubernetes.Interface) string {
	review, err := kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// readyPod returns the name of a ready pod that decides.
func (c *Connection) readyPod(ctx context.Context, kube kubernetes.Interface) (string, error) {
	pods, err := kube.CoreV1().Pods(c.WeirNamespace).List(ctx, metav1.ListOptions{LabelSelector: PodLabel})
	if err != nil {
		return "", fmt.Errorf("cannot list the pods in %s: %w; if Weir runs elsewhere, set --weir-namespace, else ask for the chart value access", c.WeirNamespace, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && IsReady(pod) {
			return pod.Name, nil
		}
	}
	if len(pods.Items) > 0 {
		return "", fmt.Errorf("none of the %d pods of Weir in %s is ready: see kubectl -n %[2]s get pods", len(pods.Items), c.WeirNamespace)
	}
	return "", fmt.Errorf("no pod in %s has the label %s: if Weir runs elsewhere, set --weir-namespace", c.WeirNamespace, PodLabel)
}

// IsReady reports whether the pod is ready and not being deleted.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// accountToken returns a token of --account or else of the first account of the chart value access
// that permits it.
func (c *Connection) accountToken(ctx context.Context, kube kubernetes.Interface) (account, token string, err error) {
	if c.account != "" {
		token, err := c.newToken(ctx, kube, c.account)
		if err != nil {
			return "", "", fmt.Errorf("--account %s: %w; ask to be a subject of it in the chart value access", c.account, err)
		}
		return c.account, token, nil
	}
	accounts, err := kube.CoreV1().ServiceAccounts(c.WeirNamespace).List(ctx, metav1.ListOptions{LabelSelector: AccountLabel + "=" + AccountLabelValue})
	if err != nil {
		return "", "", fmt.Errorf("cannot list the accounts in %s: %w; name one with --account, or ask to be a subject in the chart value access", c.WeirNamespace, err)
	}
	var names []string
	for i := range accounts.Items {
		name := accounts.Items[i].Name
		names = append(names, name)
		token, err := c.newToken(ctx, kube, name)
		if err == nil {
			return name, token, nil
		}
		if !apierrors.IsForbidden(err) {
			return "", "", fmt.Errorf("account %s: %w", name, err)
		}
	}
	if len(names) == 0 {
		return "", "", fmt.Errorf("no ServiceAccount in %s has rights on keys: kubectl weir access --role operator -n NAMESPACE prints the manifests of one; "+
			"or set the chart value access, name one with --account, or use --token-file", c.WeirNamespace)
	}
	return "", "", fmt.Errorf("you may not create tokens of %s in %s: ask to be a subject of one in the chart value access", strings.Join(names, ", "), c.WeirNamespace)
}

func (c *Connection) newToken(ctx context.Context, kube kubernetes.Interface, account string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	got, err := kube.CoreV1().ServiceAccounts(c.WeirNamespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return got.Status.Token, nil
}

// forward forwards a free port of this machine to the operator port of the pod until ctx ends.
func forward(ctx context.Context, kube kubernetes.Interface, config *rest.Config, namespace, pod string) (uint16, error) {
	dialer, err := newDialer(kube, config, namespace, pod)
	if err != nil {
		return 0, err
	}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{"127.0.0.1"},
		[]string{":" + strconv.Itoa(operatorPort)}, ready, io.Discard, io.Discard)
	if err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return 0, err
	case <-time.After(forwardTimeout):
		return 0, fmt.Errorf("not forwarded within %v", forwardTimeout)
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return 0, err
	}
	if len(ports) != 1 {
		return 0, errors.New("no port was forwarded")
	}
	return ports[0].Local, nil
}

// newDialer returns a dialer of the pod: WebSocket, or SPDY through an API server or a proxy that does not
// support it.
func newDialer(kube kubernetes.Interface, config *rest.Config, namespace, pod string) (httpstream.Dialer, error) {
	url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, err
	}
	fallback := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialerForStreaming(websocket, fallback,
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) }), nil
}
