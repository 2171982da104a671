// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeauth asks the API server what users may do: it authorizes the calls on the state of keys, and names of other
// users in exceptions. No decision needs it, so decisions continue while the API server is down.
package kubeauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
)

// Audience is the audience that a token must have, so that a token issued for another
// service is rejected.
const Audience = "weir"

// The resource that Roles grant verbs on. The subresource has no objects.
const (
	resource    = "ratelimitpolicies"
	subresource = "state"
)

// extraCredentialID is the extra attribute of a user with the ID of the token.
const extraCredentialID = "authentication.kubernetes.io/credential-id"

// apiTimeout bounds both requests together. It is well below the write timeout of the
// HTTP server.
const apiTimeout = 3 * time.Second

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Bounds on what clients make the API server do. Any client that reaches the port can send a
// token, so tokens and permissions are reviewed at separate rates: a flood of invalid tokens
// does not delay a caller whose token was reviewed.
const (
	tokenReviewsPerSecond  = 10
	accessReviewsPerSecond = 10
	// keepAnswers is how long an answer is used again, and so how long a revoked token or
	// permission may still apply.
	keepAnswers = 10 * time.Second
	// maxAnswers is well above the answers that come in keepAnswers.
	maxAnswers = 1024
)

// Authorizer implements httpapi.Authorizer with TokenReview and SubjectAccessReview.
type Authorizer struct {
	tokens       authenticationclient.TokenReviewInterface
	access       authorizationclient.SubjectAccessReviewInterface
	tokenReviews *rate.Limiter
	accesses     *rate.Limiter
	answers      *cache.LRUExpireCache
}

// New returns an Authorizer. It does not contact the API server yet.
func New(config *rest.Config) (*Authorizer, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), "state-authorizer")
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
	return newAuthorizer(authentication.TokenReviews(), authorization.SubjectAccessReviews(), clock.RealClock{}), nil
}

func newAuthorizer(tokens authenticationclient.TokenReviewInterface, access authorizationclient.SubjectAccessReviewInterface, now cache.Clock) *Authorizer {
	return &Authorizer{
		tokens: tokens, access: access,
		tokenReviews: rate.NewLimiter(tokenReviewsPerSecond, tokenReviewsPerSecond),
		accesses:     rate.NewLimiter(accessReviewsPerSecond, accessReviewsPerSecond),
		answers:      cache.NewLRUExpireCacheWithClock(maxAnswers, now),
	}
}

// Authorize implements httpapi.Authorizer. Answers of the API server, also negative ones, are
// used for 10 s. A token that is not for Weir is rejected without asking it.
func (a *Authorizer) Authorize(ctx context.Context, token string, verb httpapi.Verb, namespace, policy string) (httpapi.Caller, error) {
	none := httpapi.Caller{}
	if !forAudience(token, Audience) {
		return none, httpapi.ErrUnauthenticated
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	hash := sha256.Sum256([]byte(token))
	user, err := answerOf(ctx, a.answers, a.tokenReviews, hash, func() (*authenticationv1.UserInfo, error) { return a.userOf(ctx, token) })
	if err != nil {
		return none, err
	}
	if user == nil {
		return none, httpapi.ErrUnauthenticated
	}
	attributes := authorizationv1.ResourceAttributes{
		Verb:        string(verb),
		Group:       v1alpha1.GroupVersion.Group,
		Resource:    resource,
		Subresource: subresource,
		Namespace:   namespace,
		Name:        policy,
	}
	key := accessKey{hash, verb, namespace, policy}
	permitted, err := answerOf(ctx, a.answers, a.accesses, key, func() (bool, error) { return allowed(ctx, a.access, user, &attributes) })
	if err != nil {
		return none, err
	}
	if !permitted {
		return none, httpapi.ErrForbidden
	}
	return httpapi.Caller{User: user.Username, CredentialID: credentialID(user)}, nil
}

// credentialID returns the ID by which the audit log of the API server names the token, "" if it
// has none.
func credentialID(user *authenticationv1.UserInfo) string {
	if values := user.Extra[extraCredentialID]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// accessKey is the key of the answer whether the bearer of a token has a verb.
type accessKey struct {
	token             [sha256.Size]byte
	verb              httpapi.Verb
	namespace, policy string
}

// answerOf returns the answer that is kept, or asks for one at the limited rate and keeps it.
// It returns httpapi.ErrBusy if ctx ends before the limit permits to ask.
func answerOf[T any](ctx context.Context, answers *cache.LRUExpireCache, limit *rate.Limiter, key any, ask func() (T, error)) (T, error) {
	if kept, ok := answers.Get(key); ok {
		return kept.(T), nil
	}
	var none T
	if err := limit.Wait(ctx); err != nil {
		return none, fmt.Errorf("%w: %w", httpapi.ErrBusy, err)
	}
	// A concurrent call may have asked the same.
	if kept, ok := answers.Get(key); ok {
		return kept.(T), nil
	}
	answer, err := ask()
	if err != nil {
		return none, err
	}
	answers.Add(key, answer, keepAnswers)
	return answer, nil
}

// userOf returns the user of the token, nil if the token is not valid for Weir.
func (a *Authorizer) userOf(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review, err := a.tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token review: %w", err)
	}
	// An authenticator without support for audiences returns none.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, Audience) {
		return nil, nil //nolint:nilnil // an invalid token is an answer, which is kept
	}
	return &review.Status.User, nil
}

// MayImpersonate reports whether the API server lets the caller impersonate the user with the name. It keeps no answers.
func MayImpersonate(ctx context.Context, access authorizationclient.SubjectAccessReviewInterface, caller *authenticationv1.UserInfo, name string) (bool, error) {
	attributes := &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: name}
	if namespace, account, err := serviceaccount.SplitUsername(name); err == nil {
		attributes.Resource, attributes.Namespace, attributes.Name = "serviceaccounts", namespace, account
	}
	return allowed(ctx, access, caller, attributes)
}

// allowed reports whether the user may do this.
func allowed(
	ctx context.Context, access authorizationclient.SubjectAccessReviewInterface,
	user *authenticationv1.UserInfo, attributes *authorizationv1.ResourceAttributes,
) (bool, error) {
	review, err := access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user.Username,
		Groups:             user.Groups,
		UID:                user.UID,
		Extra:              extraOf(user),
		ResourceAttributes: attributes,
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("subject access review: %w", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// extraOf returns the extra attributes of the user, for authorizers other than RBAC.
func extraOf(user *authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return extra
}
