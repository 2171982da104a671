// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeauth asks the API server who an operator is and what that one may
// do with the state of keys. Nobody else is asked by it: decisions go on while
// the API server is away.
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

// Audience is what a token must be meant for, so that nobody can use here what
// was given to another service.
const Audience = "weir"

// The resource whose rights count. There is no such object: the subresource
// exists for Roles only.
const (
	resource    = "ratelimitpolicies"
	subresource = "state"
)

// patience bounds both questions together. It is well below the time in which
// the door must have answered.
const patience = 3 * time.Second

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Authorizer implements httpapi.Authorizer by TokenReview and
// SubjectAccessReview. Nothing is remembered: a right that is withdrawn, or a
// token that is deleted, is gone with the next request.
type Authorizer struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
}

// New returns an authorizer that has not asked the API server anything yet.
func New(config *rest.Config) (*Authorizer, error) {
	config = rest.AddUserAgent(config, "state-authorizer")
	// The API server has its own way to fend off clients.
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
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// authenticate returns who the token is of.
func (a *Authorizer) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review, err := a.tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token review: %w", err)
	}
	// An authenticator that knows no audiences names none, whatever it was asked.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, Audience) {
		return nil, httpapi.ErrUnauthenticated
	}
	return &review.Status.User, nil
}

// extraOf passes on what authorizers other than RBAC may look at.
func extraOf(user *authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return extra
}
