// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeauth authorizes the calls on the state of keys with the API server. No
// decision needs it, so decisions continue while the API server is down.
package kubeauth

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/httpapi"
)

// Audience is the audience that a token must have, so that a token issued for another
// service is rejected.
const Audience = "weir"

// The resource that Roles grant verbs on. The subresource has no objects.
const (
	resource    = "ratelimitpolicies"
	subresource = "state"
)

// apiTimeout bounds both requests together. It is well below the write timeout of the
// HTTP server.
const apiTimeout = 3 * time.Second

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Authorizer implements httpapi.Authorizer with TokenReview and SubjectAccessReview.
// Nothing is cached: a revoked permission or token applies to the next call.
type Authorizer struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
}

// New returns an Authorizer. It does not contact the API server yet.
func New(config *rest.Config) (*Authorizer, error) {
	config = rest.AddUserAgent(config, "state-authorizer")
	// The API server has its own flow control.
	config.QPS = -1
	authentication, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Authorizer{tokens: authentication.TokenReviews(), access: authorization.SubjectAccessReviews()}, nil
}

// Authorize implements httpapi.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, token string, verb httpapi.Verb, namespace, policy string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	user, err := a.authenticate(ctx, token)
	if err != nil {
		return "", err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   user.Username,
		Groups: user.Groups,
		UID:    user.UID,
		Extra:  extraOf(user),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb:        string(verb),
			Group:       v1alpha1.GroupVersion.Group,
			Resource:    resource,
			Subresource: subresource,
			Namespace:   namespace,
			Name:        policy,
		},
	}}
	review, err = a.access.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("subject access review: %w", err)
	}
	if !review.Status.Allowed || review.Status.Denied {
		return "", httpapi.ErrForbidden
	}
	return user.Username, nil
}

// authenticate returns the user of the token, or httpapi.ErrUnauthenticated.
func (a *Authorizer) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review, err := a.tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token review: %w", err)
	}
	// An authenticator without support for audiences returns none.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, Audience) {
		return nil, httpapi.ErrUnauthenticated
	}
	return &review.Status.User, nil
}

// extraOf returns the extra attributes of the user, for authorizers other than RBAC.
func extraOf(user *authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return extra
}
