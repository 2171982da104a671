// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// routeExtension is the context extension that names the route, as a plan.Target. Like plan.GatewayExtension it is part
// of the configuration of the filter.
const routeExtension = "weir.route"

// routeMetadata is the namespace in the metadata of a route of Envoy where Envoy Gateway names the resources that
// the route comes from. No client and no other filter can change it.
const routeMetadata = "envoy-gateway"

// targetsOf returns the Gateway and the route that the request came through. It returns a *limiter.FieldError for an
// extension of another form.
func (s *Service) targetsOf(a *authv3.AttributeContext) (targets []plan.Target, err error) {
	resources := a.GetRouteMetadataContext().GetFilterMetadata()[routeMetadata].GetFields()["resources"]
	for _, resource := range resources.GetListValue().GetValues() {
		if t, err := targetOf(resource.GetStructValue().GetFields()); err == nil && len(targets) < plan.MaxTargets-1 {
			targets = append(targets, t)
		}
	}
	extensions := a.GetContextExtensions()
	if route := extensions[routeExtension]; route != "" && s.options.Frontend.TrustRouteExtensions && resources == nil {
		t, err := plan.ParseTarget(route)
		if err != nil {
			return nil, extensionError(routeExtension, err.Error())
		}
		targets = append(targets, t)
	}
	if gateway := extensions[plan.GatewayExtension]; gateway != "" {
		t, err := plan.ParseGateway(gateway)
		if err != nil {
			return nil, extensionError(plan.GatewayExtension, err.Error())
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// targetOf returns the resource as a target. Resources of other kinds are errors.
func targetOf(resource map[string]*structpb.Value) (plan.Target, error) {
	text := func(name string) string { return resource[name].GetStringValue() }
	return plan.NewTarget(text("kind"), text("namespace"), text("name"), text("sectionName"))
}

func extensionError(name, problem string) error {
	return &limiter.FieldError{Field: `context_extensions["` + name + `"]`, Problem: problem}
}
