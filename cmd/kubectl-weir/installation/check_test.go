// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// lines returns "<check> <outcome>" of each finding.
func (r *report) lines() (lines []string) {
	for _, f := range r.Findings {
		lines = append(lines, f.Check+" "+string(f.Outcome))
	}
	return lines
}

func TestCheckReportsWhatToDo(t *testing.T) {
	g := NewWithT(t)
	r := &report{}
	r.add("redis", outcomeFailed, "evicts\x1b[31m", "set it")
	r.add("certificates", outcomeOK, "none", "")
	r.skip("webhook", errors.New("forbidden"))
	out := &bytes.Buffer{}
	g.Expect(r.write(out)).To(Succeed())
	g.Expect(out.String()).To(Equal(`FAILED       redis         evicts�[31m
                           -> set it
ok           certificates  none
not checked  webhook       forbidden
`))
}

// server answers as a replica does, with the given bodies; "" is a 503.
func server(t *testing.T, policies, process func() string) *connect.Client {
	t.Helper()
	answer := func(body func() string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			text := body()
			if text == "" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = w.Write([]byte(text))
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/policies", answer(policies))
	mux.Handle("/v1/process", answer(process))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &connect.Client{HTTP: s.Client(), URL: s.URL, Hint: "the test"}
}

func TestCheckOfAReplica(t *testing.T) {
	is := func(text string) func() string { return func() string { return text } }
	// inTurn answers with one text after the other, and then with the last.
	inTurn := func(texts ...string) func() string {
		return func() string {
			text := texts[0]
			texts = texts[min(1, len(texts)-1):]
			return text
		}
	}
	const good = `{"version":"v1","revision":7,"policies":[{}],"replicas":[{"name":"a","revision":7},{"name":"b","revision":7}],"notReady":{"count":0}}`
	behind := strings.Replace(good, `"b","revision":7`, `"b","revision":8`, 1)
	const redis = `{"certificates":[],"redis":{"servers":["redis 7.0.15"],"evictions":["noeviction"],"memoryUse":0.5,"problems":[]}}`
	expires := func(in time.Duration) string {
		return `{"certificates":[{"name":"server","expires":"` + time.Now().Add(in).Format(time.RFC3339) + `"}]}`
	}
	for name, tc := range map[string]struct {
		policies, process func() string
		want              []string // some of the lines
		detail            string
	}{
		"all is well": {
			is(good), is(redis),
			[]string{"decisions ok", "replicas ok", "leader ok", "policies ok", "budgets ok", "redis ok", "certificates ok"},
			"50% of maxmemory",
		},
		"no plans":             {is(""), is(redis), []string{"decisions failed", "redis ok"}, "503"},
		"an older Weir":        {is(good), is(""), []string{"redis not checked", "certificates not checked"}, ""},
		"a replica behind":     {is(behind), is(redis), []string{"replicas failed"}, "a (revision 7 of 8)"},
		"behind for a moment":  {inTurn(behind, strings.ReplaceAll(good, "7", "9")), is(redis), []string{"replicas ok"}, "2 alive, all at revision 8"},
		"a plan not readable":  {is(`{"revision":7,"replicas":[{"name":"a","revision":7,"skips":2}]}`), is(redis), []string{"replicas failed"}, "a (2 plans)"},
		"no leader":            {is(`{"revision":7,"replicas":[{"name":"a","revision":7}]}`), is(redis), []string{"leader failed", "policies not checked", "budgets not checked"}, ""},
		"policies not ready":   {is(`{"replicas":[{"name":"a"}],"notReady":{"count":2,"policies":[{"name":"shop/a","reason":"InvalidSpec"},{"name":"shop/b","reason":"OverBudget"}]}}`), is(redis), []string{"leader ok", "policies failed", "budgets failed"}, "no room for shop/b"},
		"memory short":         {is(good), is(strings.Replace(redis, "0.5", "0.95", 1)), []string{"redis failed"}, "95% of maxmemory"},
		"keys are evicted":     {is(good), is(strings.Replace(redis, "noeviction", "allkeys-lru", 1)), []string{"redis failed"}, "allkeys-lru"},
		"a proxy before Redis": {is(good), is(strings.Replace(redis, `"noeviction"`, "", 1)), []string{"redis warning"}, "unknown"},
		"an old Redis":         {is(good), is(strings.Replace(redis, `"servers"`, `"oldestTested":"7.0","servers"`, 1)), []string{"redis warning"}, ""},
		"a missing right":      {is(good), is(strings.Replace(redis, `"problems":[]`, `"problems":["PUBLISH: NOPERM"]`, 1)), []string{"redis failed"}, "PUBLISH: NOPERM"},
		"a certificate":        {is(good), is(expires(30 * 24 * time.Hour)), []string{"certificates ok", "redis not checked"}, "server expires"},
		"it expires soon":      {is(good), is(expires(time.Hour)), []string{"certificates warning"}, ""},
		"it has expired":       {is(good), is(expires(-time.Hour)), []string{"certificates failed"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, r := NewWithT(t), &report{}
			inspectReplica(t.Context(), server(t, tc.policies, tc.process), r)
			g.Expect(r.lines()).To(ContainElements(tc.want))
			out := &bytes.Buffer{}
			g.Expect(r.write(out)).To(Succeed())
			g.Expect(out.String()).To(ContainSubstring(tc.detail))
			for _, f := range r.Findings {
				if f.Outcome == outcomeFailed || f.Outcome == outcomeWarning {
					g.Expect(f.Fix).NotTo(BeEmpty(), f.Check)
				}
			}
		})
	}
}

// The report names policies by the member that Weir sends.
func TestCheckNamesPoliciesThatAreNotReady(t *testing.T) {
	g, r := NewWithT(t), &report{}
	sent, err := json.Marshal(&plan.Unready{Count: 1, Policies: []plan.UnreadyPolicy{{ID: "shop/a", Reason: "InvalidSpec"}}})
	g.Expect(err).NotTo(HaveOccurred())
	inspectReplica(t.Context(), server(t, func() string { return `{"replicas":[{"name":"a"}],"notReady":` + string(sent) + `}` },
		func() string { return `{"certificates":[]}` }), r)
	out := &bytes.Buffer{}
	g.Expect(r.write(out)).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring("1 not ready: shop/a (InvalidSpec)"))
}

func pod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: name, Labels: map[string]string{"ratelimit.weir.dev/decisions": "true"}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func inCluster() *connect.Connection { return &connect.Connection{WeirNamespace: "weir-system"} }

// aged returns a pod with a Ready condition that changed then, and which was created then.
func aged(name string, ready corev1.ConditionStatus, age time.Duration, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := pod(name, ready)
	p.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
	p.Status.Conditions[0].LastTransitionTime = p.CreationTimestamp
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// A rollout leaves pods behind that terminate, or have ended: they do not count. A check that the rollout
// fails for a moment is under way, and did not fail.
func TestCheckDuringARollout(t *testing.T) {
	ends := func(in time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now().Add(in)}, []string{"x"}
		}
	}
	waits := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	evicted := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	restarted := func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} }
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	settled := []runtime.Object{aged("a", yes, time.Hour), aged("b", yes, time.Hour)}
	const noLeader = `{"revision":7,"replicas":[{"name":"a","revision":7}]}`
	const behind = `{"revision":7,"replicas":[{"name":"a","revision":7}],"notReady":{"count":1,"policies":[{"name":"shop/a","reason":"ReplicasBehind"}]}}`
	const invalid = `{"revision":7,"replicas":[{"name":"a","revision":7}],"notReady":{"count":1,"policies":[{"name":"shop/a","reason":"InvalidSpec"}]}}`
	for name, tc := range map[string]struct {
		pods     []runtime.Object
		policies string
		want     []string
		detail   string
	}{
		"two pods terminate":      {append([]runtime.Object{aged("c", no, time.Hour, ends(time.Second)), aged("d", yes, time.Hour, ends(time.Second))}, settled...), noLeader, []string{"pods ok", "leader under way"}, "2 of 2 that decide are ready"},
		"a pod was evicted":       {append([]runtime.Object{aged("c", no, time.Hour, evicted)}, settled...), noLeader, []string{"pods ok", "leader failed"}, "2 of 2"},
		"a pod cannot terminate":  {append([]runtime.Object{aged("c", no, time.Hour, ends(-time.Hour))}, settled...), noLeader, []string{"pods ok", "leader failed"}, "2 of 2"},
		"a pod starts":            {append([]runtime.Object{aged("c", no, 0, waits("ContainerCreating"))}, settled...), behind, []string{"pods under way", "policies under way"}, "2 of 3 that decide are ready in weir-system, 1 start"},
		"a pod does not start":    {append([]runtime.Object{aged("c", no, 10*time.Minute)}, settled...), behind, []string{"pods failed", "policies failed"}, "2 of 3"},
		"its image is missing":    {append([]runtime.Object{aged("c", no, 0, waits("ImagePullBackOff"))}, settled...), noLeader, []string{"pods failed", "leader failed"}, "2 of 3"},
		"it crashed":              {append([]runtime.Object{aged("c", no, 0, restarted)}, settled...), noLeader, []string{"pods failed"}, "2 of 3"},
		"the last one is ready":   {append([]runtime.Object{aged("c", yes, 0)}, settled...), noLeader, []string{"pods ok", "leader under way"}, "3 of 3"},
		"it was ready before":     {settled, noLeader, []string{"pods ok", "leader failed"}, "2 of 2"},
		"an invalid policy stays": {append([]runtime.Object{aged("c", yes, 0)}, settled...), invalid, []string{"policies failed"}, "InvalidSpec"},
	} {
		t.Run(name, func(t *testing.T) {
			g, r := NewWithT(t), &report{}
			inspectPods(t.Context(), inCluster(), fake.NewClientset(tc.pods...), r)
			inspectReplica(t.Context(), server(t, func() string { return tc.policies }, func() string { return `{"certificates":[]}` }), r)
			g.Expect(r.lines()).To(ContainElements(tc.want))
			out := &bytes.Buffer{}
			g.Expect(r.write(out)).To(Succeed())
			g.Expect(out.String()).To(ContainSubstring(tc.detail))
			if r.number(outcomeUnderWay) > 0 {
				g.Expect(out.String()).To(And(ContainSubstring("UNDER WAY    "), ContainSubstring("-> wait until the rollout is done: kubectl weir check --wait 2m")))
			}
		})
	}
}

func TestCheckFailsWhileARolloutOutlastsTheWait(t *testing.T) {
	g, r := NewWithT(t), &report{rollout: true}
	r.addPassing("leader", "none", "see the runbook")
	g.Expect(r.err(0)).To(Succeed(), "a rollout does not fail the command")
	g.Expect(r.err(2 * time.Minute)).To(MatchError("checks still under way after 2m: 1"))
	r.add("redis", outcomeFailed, "", "set it")
	g.Expect(r.err(0)).To(MatchError("checks failed: 1"))
}

// The pods of controllers alone count for a rollout, not as pods that decide.
func TestCheckSeesTheRolloutOfControllers(t *testing.T) {
	g, r := NewWithT(t), &report{}
	controllers := aged("c", corev1.ConditionFalse, 0)
	controllers.Labels = map[string]string{"ratelimit.weir.dev/controllers": "true"}
	kube := fake.NewClientset(aged("a", corev1.ConditionTrue, time.Hour), aged("b", corev1.ConditionTrue, time.Hour), controllers)
	inspectPods(t.Context(), inCluster(), kube, r)
	g.Expect(r.rollout).To(BeTrue())
	g.Expect(r.Findings[0].Detail).To(HavePrefix("2 of 2 that decide are ready"))
}

func TestCheckOfTheCluster(t *testing.T) {
	authority := testenv.NewAuthority(t)
	bundle := func(expires time.Time) []byte {
		certificate, _ := authority.IssueUntil(t, expires, "webhook")
		return certificate
	}
	webhook := func(bundle []byte) *admissionv1.ValidatingWebhookConfiguration {
		return &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "weir"},
			Webhooks: []admissionv1.ValidatingWebhook{{Name: webhookName, ClientConfig: admissionv1.WebhookClientConfig{
				CABundle: bundle, Service: &admissionv1.ServiceReference{Namespace: "weir-system", Name: "weir-webhook"},
			}}},
		}
	}
	endpoints := func(ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: "s", Labels: map[string]string{"kubernetes.io/service-name": "weir-webhook"}},
			Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}
	}
	ending := endpoints(true)
	ending.Endpoints[0].Conditions.Terminating = new(true)
	restricts := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "weir-system", Name: "weir", Labels: map[string]string{"app.kubernetes.io/part-of": "weir"},
	}}
	gateway := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gateway", Labels: map[string]string{"ratelimit.weir.dev/client": "true"}}}
	year := time.Now().AddDate(1, 0, 0)
	for name, tc := range map[string]struct {
		objects   []runtime.Object
		forbidden string // resource
		want      []string
	}{
		"all is well": {
			[]runtime.Object{pod("a", corev1.ConditionTrue), pod("b", corev1.ConditionTrue), webhook(bundle(year)), endpoints(true), restricts, gateway},
			"",
			[]string{"pods ok", "webhook ok", "clients ok"},
		},
		"nothing":                 {nil, "", []string{"pods failed", "webhook warning", "clients ok"}},
		"one pod":                 {[]runtime.Object{pod("a", corev1.ConditionTrue)}, "", []string{"pods warning"}},
		"a pod is not ready":      {[]runtime.Object{pod("a", corev1.ConditionFalse)}, "", []string{"pods failed"}},
		"no CA":                   {[]runtime.Object{webhook(nil), endpoints(true)}, "", []string{"webhook failed"}},
		"the CA expired":          {[]runtime.Object{webhook(bundle(time.Now().Add(-time.Hour))), endpoints(true)}, "", []string{"webhook failed"}},
		"no pod for the webhook":  {[]runtime.Object{webhook(bundle(year)), endpoints(false)}, "", []string{"webhook failed"}},
		"no client":               {[]runtime.Object{restricts}, "", []string{"clients warning"}},
		"pods forbidden":          {nil, "pods", []string{"pods not checked", "webhook warning"}},
		"webhooks forbidden":      {nil, "validatingwebhookconfigurations", []string{"webhook not checked"}},
		"all end for the webhook": {[]runtime.Object{webhook(bundle(year)), ending}, "", []string{"webhook failed"}},
		"slices forbidden":        {[]runtime.Object{webhook(bundle(year))}, "endpointslices", []string{"webhook not checked"}},
		"policies forbidden":      {nil, "networkpolicies", []string{"clients not checked"}},
		"namespaces forbidden":    {[]runtime.Object{restricts}, "namespaces", []string{"clients not checked"}},
	} {
		t.Run(name, func(t *testing.T) {
			g, kube, r := NewWithT(t), fake.NewClientset(tc.objects...), &report{}
			kube.PrependReactor("list", tc.forbidden, func(a clienttesting.Action) (bool, runtime.Object, error) {
				return tc.forbidden != "", nil, apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource().Resource}, "", errors.New("no"))
			})
			c := inCluster()
			inspectPods(t.Context(), c, kube, r)
			inspectWebhook(t.Context(), kube, r)
			inspectClients(t.Context(), c, kube, r)
			g.Expect(r.lines()).To(ContainElements(tc.want))
		})
	}
}
