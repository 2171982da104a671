// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gateways

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/wiring"
)

const (
	gatewayGroup = "gateway.networking.k8s.io"
	// envoyController is the name by which GatewayClasses select Envoy Gateway.
	envoyController = "gateway.envoyproxy.io/gatewayclass-controller"
	// owningGateway, owningNamespace and owningClass are labels of the pods of Envoy. Gateways that are
	// merged into one Envoy have the last only.
	owningGateway   = "gateway.envoyproxy.io/owning-gateway-name"
	owningNamespace = "gateway.envoyproxy.io/owning-gateway-namespace"
	owningClass     = "gateway.envoyproxy.io/owning-gatewayclass"
	// grpcPort is the name of the port of Weir's Service for checks of Envoy.
	grpcPort = "grpc"
)

var (
	gatewayVersion = schema.GroupVersion{Group: gatewayGroup, Version: "v1"}
	// resources are the resources of the kinds that the plugin reads.
	resources = map[string]schema.GroupVersionResource{
		"GatewayClass":       gatewayVersion.WithResource("gatewayclasses"),
		plan.TargetGateway:   gatewayVersion.WithResource("gateways"),
		plan.TargetHTTPRoute: gatewayVersion.WithResource("httproutes"),
		plan.TargetGRPCRoute: gatewayVersion.WithResource("grpcroutes"),
		"ReferenceGrant":     wiring.GrantVersion.WithResource("referencegrants"),
		"SecurityPolicy":     wiring.EnvoyVersion.WithResource("securitypolicies"),
	}
)

// gatewayCluster is a cluster with the Gateway API and Envoy Gateway.
type gatewayCluster struct {
	kube          kubernetes.Interface
	objects       dynamic.Interface
	weirNamespace string
	hasGRPCRoutes bool
}

// wireFacts are what wire found in the cluster.
type wireFacts struct {
	wiring.Facts

	notes []string
}

func (f *wireFacts) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// newGatewayCluster returns the cluster of the kubeconfig. A cluster without the needed kinds is an error that
// names them.
func newGatewayCluster(ctx context.Context, c *connect.Connection) (*gatewayCluster, error) {
	_, kube, err := c.Clients()
	if err != nil {
		return nil, err
	}
	objects, err := c.Objects()
	if err != nil {
		return nil, err
	}
	cluster := &gatewayCluster{kube: kube, objects: objects, weirNamespace: c.WeirNamespace}
	var missing []string
	for _, kind := range []string{plan.TargetGateway, plan.TargetHTTPRoute, plan.TargetGRPCRoute, "ReferenceGrant", "SecurityPolicy"} {
		served, err := discovery.IsResourceEnabled(kube.Discovery(), resources[kind])
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot list the kinds of %s: %w", resources[kind].GroupVersion(), err)
		case kind == plan.TargetGRPCRoute:
			cluster.hasGRPCRoutes = served
		case !served:
			missing = append(missing, kind+" ("+resources[kind].GroupVersion().String()+")")
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("this cluster does not serve %s: install Envoy Gateway with its CRDs; docs/integrations has the other proxies", strings.Join(missing, ", "))
	}
	return cluster, ctx.Err()
}

// inspect returns what the manifests need.
func (g *gatewayCluster) inspect(ctx context.Context, w *wireOptions) (*wireFacts, error) {
	f := &wireFacts{Facts: wiring.Facts{WeirNamespace: g.weirNamespace}}
	target, err := g.find(ctx, &w.target)
	if err != nil {
		return nil, err
	}
	f.Target = target
	if target.GetKind() == plan.TargetGateway {
		f.Gateways = []*unstructured.Unstructured{target}
		if err := g.addRoutes(ctx, target, w.target.Section, f); err != nil {
			return nil, err
		}
	} else {
		g.addParents(ctx, target, f)
	}
	if f.Policies, err = g.list(ctx, "SecurityPolicy", w.target.Namespace, f); err != nil {
		return nil, err
	}
	slices.SortStableFunc(f.Policies, func(a, b *unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	for _, gateway := range f.Gateways {
		if err := g.inspectGateway(ctx, w, gateway, f); err != nil {
			return nil, err
		}
	}
	if len(f.Envoys) == 0 {
		f.Envoys = []string{wiring.EnvoyNamespace}
	}
	return f, g.inspectService(ctx, w, f)
}

// find returns the target and sets its kind.
func (g *gatewayCluster) find(ctx context.Context, t *wireTarget) (target *unstructured.Unstructured, err error) {
	for _, kind := range t.kinds {
		if kind == plan.TargetGRPCRoute && !g.hasGRPCRoutes {
			continue
		}
		target, err = g.objects.Resource(resources[kind]).Namespace(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return target, err
		}
	}
	err = cmp.Or(err, errors.New("this cluster does not serve GRPCRoute"))
	return nil, fmt.Errorf("no %s %s in Namespace %s: %w", strings.Join(t.kinds, " or "), t.Name, t.Namespace, err)
}

// list returns the objects of the kind in all Namespaces, or in one if others are forbidden.
func (g *gatewayCluster) list(ctx context.Context, kind, namespace string, f *wireFacts) (objects []*unstructured.Unstructured, err error) {
	list, err := g.objects.Resource(resources[kind]).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		f.note("you may not list objects of kind %s in all Namespaces: only %s is considered", kind, namespace)
		list, err = g.objects.Resource(resources[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list objects of kind %s: %w", kind, err)
	}
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, nil
}

// addRoutes adds the routes that are attached to the Gateway, or to one of its listeners.
func (g *gatewayCluster) addRoutes(ctx context.Context, gateway *unstructured.Unstructured, listener string, f *wireFacts) error {
	kinds := []string{plan.TargetHTTPRoute}
	if g.hasGRPCRoutes {
		kinds = append(kinds, plan.TargetGRPCRoute)
	}
	for _, kind := range kinds {
		routes, err := g.list(ctx, kind, gateway.GetNamespace(), f)
		if err != nil {
			return err
		}
		for _, route := range routes {
			if slices.ContainsFunc(wiring.ParentsOf(route), func(p wiring.Parent) bool { return p.Covers(gateway, listener) }) {
				f.Routes = append(f.Routes, route)
			}
		}
	}
	return nil
}

// addParents adds the Gateways of the route.
func (g *gatewayCluster) addParents(ctx context.Context, route *unstructured.Unstructured, f *wireFacts) {
	names := map[string]bool{}
	for _, p := range wiring.ParentsOf(route) {
		if names[p.Namespace+"/"+p.Name] {
			continue
		}
		names[p.Namespace+"/"+p.Name] = true
		gateway, err := g.objects.Resource(resources[plan.TargetGateway]).Namespace(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			f.note("Gateway %s/%s of the route: %v", p.Namespace, p.Name, err)
			continue
		}
		f.Gateways = append(f.Gateways, gateway)
	}
	f.Parents = len(names)
}

// inspectGateway verifies that Envoy Gateway serves the Gateway, and finds its pods.
func (g *gatewayCluster) inspectGateway(ctx context.Context, w *wireOptions, gateway *unstructured.Unstructured, f *wireFacts) error {
	name, _, _ := unstructured.NestedString(gateway.Object, "spec", "gatewayClassName") // the schema has a string
	class, err := g.objects.Resource(resources["GatewayClass"]).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		f.note("GatewayClass %s: %v", name, err)
	default:
		if controller, _, _ := unstructured.NestedString(class.Object, "spec", "controllerName"); controller != envoyController {
			f.note("GatewayClass %s has the controller %s: a SecurityPolicy has an effect only if this is Envoy Gateway", name, controller)
		}
	}
	if w.envoyNamespace != "" {
		f.Envoys = []string{w.envoyNamespace}
		return nil
	}
	for _, selector := range []string{
		owningGateway + "=" + gateway.GetName() + "," + owningNamespace + "=" + gateway.GetNamespace(),
		owningClass + "=" + name,
	} {
		pods, err := g.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: selector})
		if apierrors.IsForbidden(err) {
			f.note("you may not list pods: if Envoy runs in another Namespace than %s, set --envoy-namespace", wiring.EnvoyNamespace)
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot list the pods of Envoy: %w", err)
		}
		f.addEnvoys(pods.Items)
	}
	return nil
}

func (f *wireFacts) addEnvoys(pods []corev1.Pod) {
	for i := range pods {
		if namespace := pods[i].Namespace; !slices.Contains(f.Envoys, namespace) {
			f.Envoys = append(f.Envoys, namespace)
		}
	}
	slices.Sort(f.Envoys)
}

// inspectService finds the Service of Weir.
func (g *gatewayCluster) inspectService(ctx context.Context, w *wireOptions, f *wireFacts) error {
	f.Service, f.Port = w.service, wiring.GRPCPort
	list, err := g.kube.CoreV1().Services(g.weirNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=weir"})
	if apierrors.IsForbidden(err) {
		if f.Service == "" {
			f.Service = "weir"
			f.note("you may not list Services in %s: weir is assumed, set --service for another one", g.weirNamespace)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot list the Services in %s: %w", g.weirNamespace, err)
	}
	return f.selectService(list.Items, w.service)
}

// selectService selects the named Service with the port, or the only one if name is "".
func (f *wireFacts) selectService(services []corev1.Service, name string) error {
	var names []string
	for i := range services {
		service := &services[i]
		at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == grpcPort })
		if at < 0 || name != "" && service.Name != name {
			continue
		}
		names = append(names, service.Name)
		f.Service, f.Port = service.Name, int64(service.Spec.Ports[at].Port)
		if slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.AppProtocol != nil && *p.AppProtocol == "https" }) {
			f.note("Weir serves TLS: Envoy also needs a BackendTLSPolicy for Service %s in %s", service.Name, f.WeirNamespace)
		}
	}
	switch {
	case len(names) > 1:
		return fmt.Errorf("the Services %s in %s have a port grpc: choose one with --service", strings.Join(names, ", "), f.WeirNamespace)
	case len(names) == 0 && name == "":
		return fmt.Errorf("no Service of Weir in %s has a port grpc: if Weir runs elsewhere, set --weir-namespace; to wire before it is installed, set --service", f.WeirNamespace)
	}
	return nil
}
