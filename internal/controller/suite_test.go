// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/test/testenv/kube"
)

var (
	server *kube.APIServer
	api    client.Client
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controller")
}

var _ = BeforeSuite(func() {
	log.SetLogger(logr.Discard())
	EnforceDefaultTimeoutsWhenUsingContexts()     // otherwise a failing spec hangs
	SetDefaultEventuallyTimeout(30 * time.Second) // no spec is about speed
	SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	server = kube.StartAPIServer(GinkgoTB())
	server.Config.QPS = -1
	api = server.Client()
})

// leaseName is the name of the Lease in the Namespace of each spec.
const leaseName = "weir-manager"

// outageDelay is long enough for a blip and short enough for a spec.
const outageDelay = 500 * time.Millisecond

// makeNamespace creates a Namespace for one spec.
func makeNamespace(ctx SpecContext) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(api.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// annotate sets an annotation of the Namespace; an empty value removes it.
func annotate(ctx SpecContext, name, key, value string) {
	GinkgoHelper()
	namespace := &corev1.Namespace{}
	Expect(api.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
	before := namespace.DeepCopy()
	if value == "" {
		delete(namespace.Annotations, key)
	} else {
		metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, key, value)
	}
	Expect(api.Patch(ctx, namespace, client.MergeFrom(before))).To(Succeed())
}

// options configure the controller of a spec.
type options struct {
	server      *kube.APIServer              // nil is the common one
	started     func(*controller.Reconciler) // may be nil
	namespace   string                       // the one whose policies it reconciles
	tenancy     compile.Tenancy
	publisher   controller.Publisher
	traffic     controller.Traffic // may be nil
	denials     controller.Denials // may be nil
	gateways    bool               // reads objects of the Gateway API
	terms       *controller.TermTracker
	outageDelay time.Duration
	writeDelay  time.Duration // of each status
	beforeWrite func(ctx context.Context, policy client.Object)
	beforeGrant func() error // before a Namespace is read; may be nil
}

// startController runs the controller until the spec ends. It does nothing before a term
// begins. The result counts the attempts to write a status, and reads the controller's cache.
func startController(o options) (writes *atomic.Int64, cached client.Reader) {
	GinkgoHelper()
	writes = &atomic.Int64{}
	server := cmp.Or(o.server, server)
	mgr, err := ctrl.NewManager(server.Config, ctrl.Options{
		Scheme:     server.Env.Scheme,
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{o.namespace: {}}},
		NewClient:  newClient(o, writes),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	reconciler := &controller.Reconciler{
		Publisher: o.publisher, Terms: o.terms, Tenancy: o.tenancy, OutageDelay: o.outageDelay, Traffic: o.traffic, Denials: o.denials,
		Lease: &corev1.ObjectReference{
			APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: o.namespace, Name: leaseName,
		},
	}
	if o.gateways {
		reconciler.Gateways = gatewayapi.New(gatewayapi.Options{
			Config: server.Config, Namespaces: []string{o.namespace}, Interval: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
			Services: []types.NamespacedName{{Namespace: "weir-system", Name: "weir"}},
		})
		Expect(mgr.Add(manager.RunnableFunc(reconciler.Gateways.Start))).To(Succeed())
	}
	Expect(reconciler.SetupWithManager(mgr)).To(Succeed())
	if o.started != nil {
		o.started(reconciler)
	}
	ctx, cancel := context.WithCancel(GinkgoTB().Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	DeferCleanup(func(ctx SpecContext) {
		cancel()
		Eventually(ctx, ended).Should(Receive(BeNil()))
	})
	return writes, mgr.GetClient()
}

// awaitCached waits until the cache of the controller has the objects as they are stored. A term that begins earlier does not know
// them, or attempts to write their statuses again.
func awaitCached(ctx SpecContext, cached client.Reader, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		stored, got := object.DeepCopyObject().(client.Object), object.DeepCopyObject().(client.Object)
		Expect(api.Get(ctx, client.ObjectKeyFromObject(object), stored)).To(Succeed())
		Eventually(func() (string, error) {
			err := cached.Get(ctx, client.ObjectKeyFromObject(object), got)
			return got.GetResourceVersion(), err
		}).WithContext(ctx).Should(Equal(stored.GetResourceVersion()))
	}
}

func newClient(o options, writes *atomic.Int64) client.NewClientFunc {
	patch := func(
		ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch,
		options ...client.SubResourcePatchOption,
	) error {
		writes.Add(1)
		if o.beforeWrite != nil {
			o.beforeWrite(ctx, object)
		}
		select {
		case <-time.After(o.writeDelay):
		case <-ctx.Done():
			return ctx.Err()
		}
		return c.SubResource(name).Patch(ctx, object, patch, options...)
	}
	get := func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
	) error {
		if key.Namespace != o.namespace && key.Namespace != "" { // the cache does not hold it
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		}
		if key.Namespace == "" && o.beforeGrant != nil {
			if err := o.beforeGrant(); err != nil {
				return err
			}
		}
		return c.Get(ctx, key, object, options...)
	}
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		c, err := client.NewWithWatch(config, options)
		if err != nil {
			return nil, err
		}
		return interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: patch, Get: get}), nil
	}
}

// lead begins a term, which ends with the spec or when resign is called.
func lead(terms *controller.TermTracker) (resign context.CancelFunc) {
	term, resign := context.WithCancel(GinkgoTB().Context())
	DeferCleanup(resign)
	terms.Begin(term)
	return resign
}

// leadEmpty is lead for a Namespace without policies. It returns after the initial pass.
func leadEmpty(ctx SpecContext, terms *controller.TermTracker, plans *registry) (resign context.CancelFunc) {
	GinkgoHelper()
	resign = lead(terms)
	Eventually(ctx, plans.passes).Should(HaveLen(1))
	return resign
}

// read returns the policy as the server has it.
func read(ctx context.Context, policy *v1alpha1.RateLimitPolicy) *v1alpha1.RateLimitPolicy {
	GinkgoHelper()
	got := &v1alpha1.RateLimitPolicy{}
	Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), got)).To(Succeed())
	return got
}

// edit changes the policy as a user would.
func edit(ctx context.Context, policy *v1alpha1.RateLimitPolicy, change func(*v1alpha1.RateLimitPolicySpec)) {
	GinkgoHelper()
	before := read(ctx, policy)
	after := before.DeepCopy()
	change(&after.Spec)
	Expect(api.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}

// outcome holds the conditions and the kstatus of a policy.
type outcome struct {
	Ready, Accepted, Programmed, Enforced string // "<status> <reason>"
	Kstatus                               status.Status
}

// outcomeOf returns the outcome of a policy in its current generation. It fails
// until that generation is observed.
func outcomeOf(policy *v1alpha1.RateLimitPolicy) func(Gomega, SpecContext) outcome {
	return func(g Gomega, ctx SpecContext) outcome {
		got := read(ctx, policy)
		return outcomeFrom(g, got, got.Status.ObservedGeneration, got.Status.Conditions)
	}
}

// outcomeFrom returns the outcome of an object with that status.
func outcomeFrom(g Gomega, object client.Object, observedGeneration int64, conditions []metav1.Condition) outcome {
	g.Expect(observedGeneration).To(Equal(object.GetGeneration()))
	describe := func(conditionType string) string {
		c := meta.FindStatusCondition(conditions, conditionType)
		g.Expect(c).NotTo(BeNil(), conditionType)
		g.Expect(c.ObservedGeneration).To(Equal(object.GetGeneration()), conditionType)
		return string(c.Status) + " " + c.Reason
	}
	return outcome{
		Ready:      describe(v1alpha1.ConditionReady),
		Accepted:   describe(v1alpha1.ConditionAccepted),
		Programmed: describe(v1alpha1.ConditionProgrammed),
		Enforced:   describe(v1alpha1.ConditionEnforced),
		Kstatus:    kstatus(g, object),
	}
}

func kstatus(g Gomega, typed client.Object) status.Status {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	g.Expect(err).NotTo(HaveOccurred())
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	g.Expect(err).NotTo(HaveOccurred())
	return result.Status
}

// message returns the message of a condition.
func message(ctx SpecContext, policy *v1alpha1.RateLimitPolicy, conditionType string) string {
	GinkgoHelper()
	c := meta.FindStatusCondition(read(ctx, policy).Status.Conditions, conditionType)
	Expect(c).NotTo(BeNil())
	return c.Message
}

// eventsOn returns the reasons of the events on the policy, unordered, once for each
// time they were recorded.
func eventsOn(policy *v1alpha1.RateLimitPolicy) func(Gomega, SpecContext) []string {
	return eventsRegarding(policy.Namespace, "RateLimitPolicy", policy.Name)
}

// eventsOnLease is eventsOn for the Lease of the leader.
func eventsOnLease(namespace string) func(Gomega, SpecContext) []string {
	return eventsRegarding(namespace, "Lease", leaseName)
}

func eventsRegarding(namespace, kind, name string) func(Gomega, SpecContext) []string {
	return func(g Gomega, ctx SpecContext) []string {
		list := &eventsv1.EventList{}
		g.Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		var reasons []string
		for _, e := range list.Items {
			if e.Regarding.Kind != kind || e.Regarding.Name != name {
				continue
			}
			g.Expect(e.Action).NotTo(BeEmpty())
			reasons = append(reasons, e.Reason)
			if e.Series != nil {
				for range e.Series.Count - 1 {
					reasons = append(reasons, e.Reason)
				}
			}
		}
		return reasons
	}
}
