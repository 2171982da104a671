// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
)

// jwt returns a token with the claims and a signature that depends on its name.
func jwt(claims, name string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte(name))
}

func forWeir(name string) string { return jwt(`{"aud":["weir"]}`, name) }

// apiServer counts the reviews it answers.
type apiServer struct {
	*Authorizer
	clock            *testclock.FakeClock
	tokens, accesses atomic.Int64
	invalid, denied  atomic.Bool
	failure          atomic.Pointer[error]
}

func start() *apiServer {
	s := &apiServer{clock: testclock.NewFakeClock(time.Unix(0, 0))}
	clients := fake.NewClientset()
	clients.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.tokens.Add(1)
		if err := s.failure.Load(); err != nil {
			return true, nil, *err
		}
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status = authenticationv1.TokenReviewStatus{
			Authenticated: !s.invalid.Load(), Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{
				Username: "jane", Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=4711"}},
			},
		}
		return true, review, nil
	})
	clients.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.accesses.Add(1)
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = !s.denied.Load()
		return true, review, nil
	})
	s.Authorizer = newAuthorizer(clients.AuthenticationV1().TokenReviews(), clients.AuthorizationV1().SubjectAccessReviews(), s.clock)
	return s
}

func (s *apiServer) authorize(ctx context.Context, token string) error {
	_, err := s.Authorize(ctx, token, httpapi.VerbInspect, "shop", "login")
	return err
}

// asked returns the number of token and access reviews.
func (s *apiServer) asked() [2]int64 { return [2]int64{s.tokens.Load(), s.accesses.Load()} }

func TestTokensForOtherAudiencesAreRejectedUnasked(t *testing.T) {
	for name, token := range map[string]string{
		"no JWT":            "nonsense",
		"two parts":         "a.b",
		"four parts":        forWeir("x") + ".a",
		"not base64":        "a.{}.b",
		"not JSON":          jwt("aud: weir", "x"),
		"no audience":       jwt(`{"sub":"weir"}`, "x"),
		"another audience":  jwt(`{"aud":"https://kubernetes.default.svc"}`, "x"),
		"other audiences":   jwt(`{"aud":["weird","we","ir"]}`, "x"),
		"a number":          jwt(`{"aud":7}`, "x"),
		"null":              jwt(`{"aud":null}`, "x"),
		"an object":         jwt(`{"aud":{"weir":"weir"}}`, "x"),
		"an array":          jwt(`["weir"]`, "x"),
		"a nested audience": jwt(`{"aud":[["weir"]]}`, "x"),
		"a large one":       jwt(`{"aud":"`+strings.Repeat("x", 60_000)+`"}`, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), start()
			g.Expect(s.authorize(t.Context(), token)).To(MatchError(httpapi.ErrUnauthenticated))
			g.Expect(s.asked()).To(Equal([2]int64{0, 0}))
		})
	}
}

func TestTokensForWeirAreReviewed(t *testing.T) {
	for name, claims := range map[string]string{
		"a string": `{"aud":"weir"}`, "a list": `{"aud":["weir"]}`, "one of a list": `{"aud":["other","weir"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), start()
			caller, err := s.Authorize(t.Context(), jwt(claims, "x"), httpapi.VerbReset, "shop", "login")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(caller).To(Equal(httpapi.Caller{User: "jane", CredentialID: "JTI=4711"}))
			g.Expect(s.asked()).To(Equal([2]int64{1, 1}))
		})
	}
}

func TestAnswersAreKeptForTenSeconds(t *testing.T) {
	g, s := NewWithT(t), start()
	token := forWeir("x")
	g.Expect(s.authorize(t.Context(), token)).To(Succeed())
	s.clock.Step(9 * time.Second)
	g.Expect(s.authorize(t.Context(), token)).To(Succeed())
	g.Expect(s.asked()).To(Equal([2]int64{1, 1}))

	s.denied.Store(true)
	s.clock.Step(2 * time.Second)
	g.Expect(s.authorize(t.Context(), token)).To(MatchError(httpapi.ErrForbidden), "a revoked permission")
	g.Expect(s.authorize(t.Context(), token)).To(MatchError(httpapi.ErrForbidden))
	g.Expect(s.asked()).To(Equal([2]int64{2, 2}))

	s.invalid.Store(true)
	s.clock.Step(11 * time.Second)
	g.Expect(s.authorize(t.Context(), token)).To(MatchError(httpapi.ErrUnauthenticated), "a revoked token")
	g.Expect(s.authorize(t.Context(), token)).To(MatchError(httpapi.ErrUnauthenticated))
	g.Expect(s.asked()).To(Equal([2]int64{3, 2}))
}

// An answer holds for the same token, verb and policy only.
func TestAnswersAreNotMixedUp(t *testing.T) {
	g, s := NewWithT(t), start()
	ask := func(token string, verb httpapi.Verb, namespace, policy string) {
		_, err := s.Authorize(t.Context(), forWeir(token), verb, namespace, policy)
		g.Expect(err).NotTo(HaveOccurred())
	}
	ask("x", httpapi.VerbInspect, "a", "b")
	ask("x", httpapi.VerbReset, "a", "b")
	ask("x", httpapi.VerbInspect, "ab", "")
	ask("x", httpapi.VerbInspect, "a", "c")
	g.Expect(s.asked()).To(Equal([2]int64{1, 4}))
	ask("y", httpapi.VerbInspect, "a", "b")
	g.Expect(s.asked()).To(Equal([2]int64{2, 5}))
}

func TestErrorsAreNotKept(t *testing.T) {
	g, s := NewWithT(t), start()
	s.failure.Store(new(errors.New("connection refused")))
	g.Expect(s.authorize(t.Context(), forWeir("x"))).To(MatchError(ContainSubstring("token review: connection refused")))
	s.failure.Store(nil)
	g.Expect(s.authorize(t.Context(), forWeir("x"))).To(Succeed())
}

// A flood of invalid tokens makes 10 reviews a second. A caller whose token was reviewed is
// not affected.
func TestReviewsAreLimited(t *testing.T) {
	started := time.Now()
	g, s := NewWithT(t), start()
	g.Expect(s.authorize(t.Context(), forWeir("operator"))).To(Succeed())
	s.invalid.Store(true)
	var busy atomic.Int64
	var flood sync.WaitGroup
	for i := range 500 {
		flood.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if errors.Is(s.authorize(ctx, forWeir(strconv.Itoa(i))), httpapi.ErrBusy) {
				busy.Add(1)
			}
		})
	}
	flood.Wait()
	_, err := s.Authorize(t.Context(), forWeir("operator"), httpapi.VerbReset, "shop", "login")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(float64(s.tokens.Load())).To(BeNumerically("<=", tokenReviewsPerSecond*(1+time.Since(started).Seconds())))
	g.Expect(busy.Load()).To(BeNumerically(">", 400))
}

func TestAnswersAreBounded(t *testing.T) {
	g, s := NewWithT(t), start()
	s.tokenReviews.SetLimit(1e9)
	s.invalid.Store(true)
	for i := range maxAnswers + 100 {
		g.Expect(s.authorize(t.Context(), forWeir(strconv.Itoa(i)))).To(MatchError(httpapi.ErrUnauthenticated))
	}
	g.Expect(s.answers.Keys()).To(HaveLen(maxAnswers))
	g.Expect(fmt.Sprint(s.answers.Keys())).NotTo(ContainSubstring(forWeir("500")), "no token is kept")
}
