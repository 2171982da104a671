// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// front is an Envoy with one of the filters, with its traffic.
type front struct {
	filter  string
	admin   string
	traffic *traffic
}

// stat returns a counter or gauge of Envoy for a cluster; 0 if it does not exist yet.
func (f *front) stat(t *testing.T, cluster, name string) float64 {
	t.Helper()
	name = "cluster." + cluster + "." + name
	a := get(t, http.DefaultClient, "http://"+f.admin+"/stats?filter="+url.QueryEscape("^"+regexp.QuoteMeta(name)+"$"))
	if a.body == "" {
		return 0
	}
	return envoyStat(t, f.admin, name)
}

// weather is the processes that a test disturbs: replicas of weir behind an Envoy for each filter.
type weather struct {
	t        *testing.T
	replicas []*replica
	service  *service // nil if Envoy calls the replicas itself
	mtls     *mtls    // nil for plain text
	fronts   []*front
	pauses   *testenv.Pauses // longer than a fifth of envoyTimeout
}

// climate is what the processes of a test are started with.
type climate struct {
	replicas int
	// service puts a Service between Envoy and the replicas.
	service bool
	// patient replaces the timeouts by longer ones, for tests in which Weir always answers: a pause of
	// a busy machine must not let Envoy decide.
	patient bool
	// tls turns on mTLS between Envoy and the replicas.
	tls bool
}

// startWeather starts the processes and waits until Weir decides the requests of both Envoys.
func startWeather(t *testing.T, c climate) *weather {
	t.Helper()
	w := &weather{t: t, pauses: testenv.WatchPauses(t, envoyTimeout/5)}
	var flags []string
	if c.tls {
		w.mtls = newMTLS(t, "weir.weir-system.svc")
		flags = w.mtls.flags
	}
	dir := t.TempDir()
	NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(weatherPolicies), 0o600)).To(Succeed())
	args := slices.Concat([]string{
		"standalone", "--policies", dir, "--redis-url", testenv.StartRedis(t).URL, "--store-timeout", "60s",
		"--operator-address", "", "--metrics-address", "", "--drain-delay", "3s",
	}, flags)
	for range c.replicas {
		r := &replica{t: t, grpc: testenv.FreeAddr(t), http: testenv.FreeAddr(t), scheme: "http", client: http.DefaultClient}
		if c.tls {
			r.scheme, r.client = "https", w.mtls.client
		}
		r.args = append(slices.Clip(args), "--grpc-address", r.grpc, "--http-address", r.http)
		t.Cleanup(r.cleanup)
		r.start()
		w.replicas = append(w.replicas, r)
	}
	if c.service {
		w.service = startService(t)
		w.service.route(w.replicas[0]) // all connections, also the one of the health checks
	}
	page := blocks(t, "envoy.md")
	w.startFront("ext_authz", page[0], c)
	w.startFront("ratelimit", page[2], c)
	for _, f := range w.fronts {
		w.awaitHealthy(f)
	}
	return w
}

// endpoint is the endpoint of Weir as printed.
const endpoint = `        - endpoint:
            address:
              socket_address: {address: weir.weir-system.svc, port_value: 8081}
`

// startFront starts Envoy with the printed configuration, and its traffic.
func (w *weather) startFront(name, config string, c climate) {
	w.t.Helper()
	upstream := newUpstream(w.t)
	world := &world{upstream: upstream, proxy: testenv.FreeAddr(w.t), grpc: w.replicas[0].grpc}
	var pairs []string
	if c.service {
		world.grpc = w.service.address
	} else {
		endpoints := []string{endpoint}
		for _, r := range w.replicas[1:] {
			endpoints = append(endpoints, replace(w.t, endpoint, "{address: weir.weir-system.svc, port_value: 8081}", socket(w.t, r.grpc)))
		}
		pairs = append(pairs, endpoint, strings.Join(endpoints, ""))
	}
	if c.patient {
		pairs = append(pairs, ": 0.1s", ": 5s")
	}
	if c.tls {
		pairs = append(pairs, w.mtls.transport(w.t)...)
	}
	g := &front{filter: name, admin: startEnvoy(w.t, world, world.withAddresses(w.t, config, pairs...))}
	w.fronts = append(w.fronts, g)
	g.traffic = startTraffic(w.t, world.proxy)
	NewWithT(w.t).Eventually(func() bool {
		return len(filter(g.traffic.all(), func(o *outcome) bool { return o.decided })) > 50
	}).Should(BeTrue(), "decisions of Weir")
}

// awaitHealthy waits until Envoy finds all endpoints healthy, twice: before its second health check,
// a second after its start, Envoy takes longer to exclude an endpoint that times out.
func (w *weather) awaitHealthy(f *front) {
	w.t.Helper()
	endpoints := float64(len(w.replicas))
	if w.service != nil {
		endpoints = 1
	}
	g := NewWithT(w.t)
	g.Eventually(func() float64 { return f.stat(w.t, "weir", "membership_healthy") }, "30s", "20ms").Should(Equal(endpoints))
	g.Eventually(func() float64 { return f.stat(w.t, "weir", "health_check.success") }, "30s", "20ms").Should(BeNumerically(">=", 2*endpoints))
}

// roll replaces the replicas one after the other. The next one ends once Envoy calls the previous one.
func (w *weather) roll() {
	w.t.Helper()
	for _, r := range w.replicas {
		r.stop(syscall.SIGTERM)
		r.start()
		for _, f := range w.fronts {
			w.awaitHealthy(f)
		}
	}
}
