// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv"
)

// policyText is a policy with one FixedWindow limit an hour.
func policyText(name string, threshold int) string {
	return fmt.Sprintf(`apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: %s, namespace: shop}
spec:
  limits:
  - {name: hourly, algorithm: FixedWindow, threshold: %d, window: 1h}
`, name, threshold)
}

// running is a running endpoint with the folder of its policies.
type running struct {
	*Server
	dir string
	log *testenv.Log
}

func start(t *testing.T, redisURL string, files map[string]string) *running {
	t.Helper()
	return startWithClock(t, redisURL, files, nil)
}

// startWithClock is start for a Redis whose clock the test sets; now returns its time.
func startWithClock(t *testing.T, redisURL string, files map[string]string, now func() time.Time) *running {
	t.Helper()
	g := NewWithT(t)
	r := &running{dir: t.TempDir(), log: &testenv.Log{}}
	for name, text := range files {
		r.write(t, name, text)
	}
	var err error
	r.Server, err = New(t.Context(), Options{
		Policies: []string{r.dir}, RedisURL: redisURL,
		Options: endpoint.Options{
			Observe: true, ReplicaName: filepath.Base(r.dir), Authorizer: anyone{},
			LocalKeys: 1000, RedisPrefix: "weir:", HTTPAddress: "127.0.0.1:0", GRPCAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
			StoreTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(r.log, nil)), Registry: prometheus.NewRegistry(),
			Now: now,
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Eventually(ended, "30s").Should(Receive(BeNil()))
	})
	g.Eventually(r.HTTP.Addr).ShouldNot(BeEmpty())
	g.Eventually(r.Metrics.Addr).ShouldNot(BeEmpty())
	return r
}

func (r *running) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// check sends a check of the policy and returns the status and the threshold.
func (r *running) check(policy string) (status int, threshold int64) {
	response, err := http.Post("http://"+r.HTTP.Addr()+"/v1/check", "application/json",
		strings.NewReader(`{"policies":["shop/`+policy+`"],"key":"alice"}`))
	if err != nil {
		return 0, 0
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Limits []struct{ Threshold int64 }
	}
	_ = json.NewDecoder(response.Body).Decode(&answer)
	if len(answer.Limits) > 0 {
		threshold = answer.Limits[0].Threshold
	}
	return response.StatusCode, threshold
}

func TestPoliciesOfRoutes(t *testing.T) {
	g := NewWithT(t)
	r := start(t, "", map[string]string{
		"a.yaml": strings.Replace(policyText("a", 1), "spec:", "spec:\n  targetRefs:\n  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}", 1),
	})
	status := func(target string) int {
		response, err := http.Post("http://"+r.HTTP.Addr()+"/v1/check", "application/json", strings.NewReader(`{"attributes":{"targets":["`+target+`"]}}`))
		g.Expect(err).NotTo(HaveOccurred())
		_ = response.Body.Close()
		return response.StatusCode
	}
	g.Expect([]int{status("HTTPRoute/shop/shop"), status("HTTPRoute/shop/shop/rule")}).To(Equal([]int{http.StatusOK, http.StatusTooManyRequests}))
	g.Expect([]int{status("HTTPRoute/bank/shop"), status("HTTPRoute/shop/shop2"), status("shop")}).
		To(Equal([]int{http.StatusOK, http.StatusOK, http.StatusBadRequest}))
}

// TestMain makes the tests load changes by their events only.
func TestMain(m *testing.M) {
	recheckInterval = time.Hour
	m.Run()
}

func TestPolicyFilesAreReloaded(t *testing.T) {
	g := NewWithT(t)
	r := start(t, "", map[string]string{"a.yaml": policyText("a", 2)})
	status := func(policy string) func() int {
		return func() int { s, _ := r.check(policy); return s }
	}
	threshold := func(policy string) func() int64 {
		return func() int64 { _, n := r.check(policy); return n }
	}
	g.Expect([]int{status("a")(), status("a")(), status("a")()}).To(Equal([]int{200, 200, 429}))
	g.Expect(status("never-seen")()).To(Equal(404))

	r.write(t, "b.yml", policyText("never-seen", 1))
	g.Eventually(status("never-seen")).Should(Equal(200))
	g.Eventually(status("never-seen")).Should(Equal(429))

	r.write(t, "a.yaml", policyText("a", 1000))
	g.Eventually(threshold("a")).Should(Equal(int64(1000)))
	g.Expect(status("a")()).To(Equal(200))

	r.write(t, "c.json", `{"apiVersion":"ratelimit.weir.dev/v1alpha1","kind":"RateLimitPolicy","metadata":{"name":"c","namespace":"shop"},
		"spec":{"limits":[{"name":"l","algorithm":"SlidingLog","threshold":7,"window":"1s"}]}}`)
	g.Eventually(threshold("c")).Should(Equal(int64(7)))

	g.Expect(os.Remove(filepath.Join(r.dir, "b.yml"))).To(Succeed())
	g.Eventually(status("never-seen")).Should(Equal(404))
}

func TestBadFileKeepsLastGoodPlan(t *testing.T) {
	g := NewWithT(t)
	r := start(t, "", map[string]string{"a.yaml": policyText("a", 10), "b.yaml": policyText("b", 10)})
	threshold := func(policy string) func() int64 {
		return func() int64 { _, n := r.check(policy); return n }
	}
	// One valid and one invalid edit in the same file: the whole file is rejected.
	r.write(t, "a.yaml", policyText("a", 11)+"---\n"+policyText("also", -1))
	g.Eventually(r.log.String).Should(And(
		ContainSubstring("Failed to load policy file"), ContainSubstring("a.yaml"),
		ContainSubstring("13:44: shop/also: spec.limits[0].threshold")))
	r.write(t, "b.yaml", policyText("b", 12))
	g.Eventually(threshold("b")).Should(Equal(int64(12)), "other files are reloaded")
	g.Expect(threshold("a")()).To(Equal(int64(10)))
	g.Eventually(func() string { return r.get(t, "/metrics") }).Should(ContainSubstring("weir_policy_files_bad 1\n"))

	r.write(t, "a.yaml", "spec: [")
	g.Eventually(func() int { return strings.Count(r.log.String(), "Failed to load policy file") }).Should(Equal(2))
	g.Expect(threshold("a")()).To(Equal(int64(10)))

	r.write(t, "a.yaml", policyText("a", 13))
	g.Eventually(threshold("a")).Should(Equal(int64(13)))
	g.Eventually(func() string { return r.get(t, "/metrics") }).Should(ContainSubstring("weir_policy_files_bad 0\n"))
}

func (r *running) get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get("http://" + r.Metrics.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestFirstFileWinsForADuplicatePolicy(t *testing.T) {
	g := NewWithT(t)
	r := start(t, "", map[string]string{"b.yaml": policyText("a", 10)})
	r.write(t, "c.yaml", policyText("a", 99))
	g.Eventually(r.log.String).Should(And(ContainSubstring("shop/a is also defined in"), ContainSubstring("keep one of them")))
	_, threshold := r.check("a")
	g.Expect(threshold).To(Equal(int64(10)))
}

// Folders below the one of --policies are read as validate reads them, also when they appear later.
func TestFoldersBelowAreRead(t *testing.T) {
	g := NewWithT(t)
	r := start(t, "", map[string]string{"a.yaml": policyText("a", 1), "kustomization.yaml": "resources: [a.yaml]"})
	below := filepath.Join("team", "eu")
	g.Expect(os.MkdirAll(filepath.Join(r.dir, below, ".hidden"), 0o700)).To(Succeed())
	r.write(t, filepath.Join(below, ".hidden", "c.yaml"), policyText("c", 1))
	r.write(t, filepath.Join(below, "b.yaml"), policyText("b", 2))
	threshold := func(policy string) func() int64 {
		return func() int64 { _, threshold := r.check(policy); return threshold }
	}
	g.Eventually(threshold("b"), "30s").Should(Equal(int64(2)))
	r.write(t, filepath.Join(below, "b.yaml"), policyText("b", 3))
	g.Eventually(threshold("b"), "30s").Should(Equal(int64(3)))
	g.Expect(threshold("c")()).To(BeZero())
	g.Expect(os.RemoveAll(filepath.Join(r.dir, "team"))).To(Succeed())
	g.Eventually(threshold("b"), "30s").Should(BeZero())
	g.Expect(threshold("a")()).To(Equal(int64(1)))
	g.Expect(r.log.String()).NotTo(ContainSubstring("Failed"))
}

// A folder may be removed between any two steps of a load.
func TestRemovalDuringALoadIsNoError(t *testing.T) {
	g := NewWithT(t)
	dir, other := t.TempDir(), t.TempDir()
	below := filepath.Join(dir, "team", "eu")
	files := newPolicyFiles([]string{dir})
	server := &Server{files: files}
	watcher, err := fsnotify.NewWatcher()
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(watcher.Close()).To(Succeed()) }()
	go func() {
		for range watcher.Events { // until Close
		}
	}()
	ended := make(chan error)
	go func() {
		defer close(ended)
		for range 200 {
			ended <- errors.Join(
				os.MkdirAll(below, 0o700),
				os.WriteFile(filepath.Join(other, "b.yaml"), []byte(policyText("b", 1)), 0o600),
				os.Rename(filepath.Join(other, "b.yaml"), filepath.Join(below, "b.yaml")),
				os.RemoveAll(filepath.Join(dir, "team")),
			)
		}
	}()
	for err := range ended {
		g.Expect(err).NotTo(HaveOccurred())
		for range 5 {
			_, errs := files.load(t.Context())
			g.Expect(errs).To(BeEmpty())
			g.Expect(server.watchFolders(watcher)).To(Succeed())
		}
	}
}

// A folder mounted from a ConfigMap changes when one link is replaced.
func TestConfigMapVolumeIsReloaded(t *testing.T) {
	g := NewWithT(t)
	volume := testenv.NewVolume(t)
	volume.Replace(map[string][]byte{"a.yaml": []byte(policyText("a", 1))})
	files := newPolicyFiles([]string{volume.Dir + "/."})
	snapshot, errs := files.load(t.Context())
	g.Expect(errs).To(BeEmpty())
	g.Expect(snapshot.Lookup("shop/a").Limits[0].Threshold).To(Equal(int64(1)))
	volume.Replace(map[string][]byte{"a.yaml": []byte(policyText("a", 2))})
	snapshot, errs = files.load(t.Context())
	g.Expect(errs).To(BeEmpty())
	g.Expect(snapshot.Lookup("shop/a").Limits[0].Threshold).To(Equal(int64(2)))
}

func TestLoadKeepsUnchangedPlans(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	write := func(name, text string) {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	write("a.yaml", policyText("a", 1)+"---\n"+policyText("b", 1))
	files := newPolicyFiles([]string{dir + "/."})
	first, _ := files.load(t.Context())
	again, errs := files.load(t.Context())
	g.Expect(errs).To(BeEmpty())
	g.Expect(again).To(BeNil(), "nothing changed")
	write("a.yaml", "# a comment\n"+policyText("a", 1)+"---\n"+policyText("b", 2))
	second, _ := files.load(t.Context())
	g.Expect(second.Revision()).To(Equal(first.Revision() + 1))
	g.Expect(second.Lookup("shop/a")).To(BeIdenticalTo(first.Lookup("shop/a")))
	g.Expect(second.Lookup("shop/b")).NotTo(BeIdenticalTo(first.Lookup("shop/b")))
}

// Files are parsed when they change, valid or not, and all of them when a month has begun.
func TestUnchangedFilesAreParsedOnce(t *testing.T) {
	g := NewWithT(t)
	r := &running{dir: t.TempDir()}
	r.write(t, "a.yaml", policyText("a", 1))
	r.write(t, "b.yaml", policyText("b", 1))
	r.write(t, "bad.yaml", "kind: Mistake")
	files := newPolicyFiles([]string{r.dir})
	path := func(name string) string { return filepath.Join(r.dir, name) }
	_, errs := files.load(t.Context())
	g.Expect(errs).NotTo(BeEmpty())
	first := files.read

	r.write(t, "b.yaml", policyText("b", 2))
	snapshot, again := files.load(t.Context())
	g.Expect(snapshot.Lookup("shop/b").Limits[0].Threshold).To(Equal(int64(2)))
	g.Expect(again).To(Equal(errs), "a problem stays")
	g.Expect(files.read[path("a.yaml")]).To(BeIdenticalTo(first[path("a.yaml")]))
	g.Expect(files.read[path("bad.yaml")]).To(BeIdenticalTo(first[path("bad.yaml")]))
	g.Expect(files.read[path("b.yaml")]).NotTo(BeIdenticalTo(first[path("b.yaml")]))

	files.read[path("a.yaml")].month = time.Time{}
	snapshot, _ = files.load(t.Context())
	g.Expect(snapshot).To(BeNil(), "the same plans")
	g.Expect(files.read[path("a.yaml")]).NotTo(BeIdenticalTo(first[path("a.yaml")]))

	r.write(t, "bad.yaml", policyText("c", 1))
	g.Expect(os.Remove(path("a.yaml"))).To(Succeed())
	snapshot, errs = files.load(t.Context())
	g.Expect(errs).To(BeEmpty())
	g.Expect(snapshot.Lookup("shop/a")).To(BeNil())
	g.Expect(snapshot.Lookup("shop/c")).NotTo(BeNil())
}

func TestUnreadableFolderKeepsItsPlans(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(policyText("a", 1)), 0o600)).To(Succeed())
	files := newPolicyFiles([]string{dir})
	_, errs := files.load(t.Context())
	g.Expect(errs).To(BeEmpty())
	g.Expect(os.RemoveAll(dir)).To(Succeed())
	snapshot, errs := files.load(t.Context())
	g.Expect(errs).To(HaveLen(1))
	g.Expect(snapshot).To(BeNil(), "nothing changed")
}

func TestStartRejectsInvalidPolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want string
	}{
		"a bad policy":          {policyText("a", 0), "a.yaml:6:44: shop/a: spec.limits[0].threshold"},
		"a misspelling":         {strings.Replace(policyText("a", 1), "limits:", "limit:", 1), "spec.limit: Forbidden: unknown field; did you mean limits?"},
		"what does not compile": {policyText("a", 1) + "  matches:\n  - when: request.hedaers.x == \"\"\n", "a.yaml:8:5: shop/a: spec.matches[0].when: "},
		"not supported":         {policyText("a", 1) + "  failureMode: Some\n", "spec.failureMode: Unsupported value: \"Some\""},
		"not YAML at all":       {"][", "a.yaml:1:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			g.Expect(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(tc.text), 0o600)).To(Succeed())
			_, err := New(t.Context(), Options{Policies: []string{dir}, Options: quiet()})
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
	_, err := New(t.Context(), Options{Policies: []string{"/no/such/folder"}, Options: quiet()})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("/no/such/folder: no such file")))
	empty := t.TempDir()
	_, err = New(t.Context(), Options{Policies: []string{empty}, Options: quiet()})
	NewWithT(t).Expect(err).To(MatchError("--policies " + empty + ": no RateLimitPolicy in the .yaml, .yml and .json files of the folder"))
}

// quiet returns the options of an endpoint that never serves.
func quiet() endpoint.Options {
	return endpoint.Options{
		Logger: slog.New(slog.DiscardHandler), StoreTimeout: time.Minute, Registry: prometheus.NewRegistry(),
	}
}

func TestStartsWhileRedisIsDown(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	server.Stop()
	r := start(t, server.URL, map[string]string{"a.yaml": policyText("a", 1)})
	status, _ := r.check("a")
	g.Expect(status).To(Equal(200), "failureMode Open")
	server.Start()
	g.Eventually(func() int { s, _ := r.check("a"); return s }, "30s").Should(Equal(429))
}
