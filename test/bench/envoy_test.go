// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/proxy"
)

const (
	envoyTitle   = "Through Envoy"
	envoyCallers = 64
	peerName     = "envoyproxy/ratelimit"
)

// route is a listener of Envoy with a filter that asks a limiter.
type route struct {
	Name    string
	Filter  string // ratelimit, ext_authz, or empty: no limiter
	Limiter string // its address
	Address string // of the listener

	target *target // the limiter
}

// envoy is a process with a listener for each route.
type envoy struct {
	Admin, Upstream string
	Routes          []*route

	pid int
}

// envoyConfig has, for each route, a listener and a cluster, both with the number of the route. All
// forward to the upstream, which is a listener of the same process. Without a decision a request fails.
var envoyConfig = template.Must(template.New("").Funcs(template.FuncMap{"socket": proxy.EnvoyAddress}).Parse(`
{{- define "listener" }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          generate_request_id: false
          http_filters:
{{- end }}
{{- define "router" }}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
{{- end }}
admin: {address: {socket_address: {{ socket .Admin }}}}
static_resources:
  listeners:
  - address: {socket_address: {{ socket .Upstream }}}
{{- template "listener" }}
{{- template "router" }}
          route_config:
            virtual_hosts:
            - {name: upstream, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200}}]}
{{- range $i, $r := .Routes }}
  - address: {socket_address: {{ socket $r.Address }}}
{{- template "listener" }}
{{- if eq $r.Filter "ratelimit" }}
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: bench
              failure_mode_deny: true
              timeout: 5s
              rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: limiter-{{ $i }}}}}
{{- else if eq $r.Filter "ext_authz" }}
          - name: envoy.filters.http.ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              transport_api_version: V3
              grpc_service: {envoy_grpc: {cluster_name: limiter-{{ $i }}}, timeout: 5s}
{{- end }}
{{- template "router" }}
          route_config:
            virtual_hosts:
            - name: upstream
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route:
                  cluster: upstream
                  rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: allowed}}]}]
{{- end }}
  clusters:
  - name: upstream
    load_assignment: {cluster_name: upstream, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {{ socket .Upstream }}}}}]}]}
{{- range $i, $r := .Routes }}{{ if $r.Filter }}
  - name: limiter-{{ $i }}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: limiter-{{ $i }}
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {{ socket $r.Limiter }}}}}]}]
{{- end }}{{ end }}
`))

// startEnvoy starts Envoy with the routes, and with one worker, which leaves a core to the limiter on
// small machines.
func startEnvoy(tb testing.TB, routes ...*route) *envoy {
	tb.Helper()
	g := NewWithT(tb)
	e := &envoy{Admin: testenv.FreeAddr(tb), Upstream: testenv.FreeAddr(tb), Routes: routes}
	for _, r := range routes {
		r.Address = testenv.FreeAddr(tb)
		if r.target != nil {
			r.Limiter = r.target.address
		}
	}
	var config bytes.Buffer
	g.Expect(envoyConfig.Execute(&config, e)).To(Succeed())
	path := filepath.Join(tb.TempDir(), "envoy.yaml")
	g.Expect(os.WriteFile(path, config.Bytes(), 0o600)).To(Succeed())
	cmd := testenv.Command(proxy.Envoy(tb), "--config-path", path, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning")
	e.pid = startProcess(tb, cmd, routes[len(routes)-1].Address)
	return e
}

// load returns the requests of the callers through the route. The CPU time of the load is the
// limiter's; without a limiter it is Envoy's.
func (e *envoy) load(tb testing.TB, r *route, w *workload) load {
	tb.Helper()
	t := &target{name: r.Name, address: r.Address, host: "bench.example", pid: e.pid}
	if r.target != nil {
		t.pid, t.redis = r.target.pid, r.target.redis
	}
	return load{name: r.Name, target: t, calls: w.overHTTP(tb, t, http.MethodGet, "/", envoyCallers)}
}

// calls returns the number of calls of a route to its limiter that were answered.
func (e *envoy) calls(tb testing.TB, i int) int {
	tb.Helper()
	g := NewWithT(tb)
	response, err := http.Get(fmt.Sprintf("http://%s/stats?filter=^cluster.limiter-%d.upstream_rq_completed$", e.Admin, i))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	_, value, _ := strings.Cut(strings.TrimSpace(string(body)), ": ")
	n, err := strconv.Atoi(cmp.Or(value, "0"))
	g.Expect(err).NotTo(HaveOccurred(), string(body))
	return n
}

// compareEnvoy compares what limiters add to requests through Envoy.
func compareEnvoy(b *testing.B, s *section) {
	b.Helper()
	weir, _ := weirTargets(b, policyFolder(b, 0))
	routes := []*route{
		{Name: "no limiter"},
		{Name: "Weir, `ratelimit`", Filter: "ratelimit", target: weir},
		{Name: "Weir, `ext_authz`", Filter: "ext_authz", target: weir},
		{Name: "no-op service, `ratelimit`", Filter: "ratelimit", target: noopTarget(b, plainNoop, noopPlain, nil)},
	}
	if *ratelimitBin != "" {
		routes = append(routes, &route{Name: peerName, Filter: "ratelimit", target: ratelimitTarget(b)})
	}
	e, w := startEnvoy(b, routes...), manyAllowed()
	measured := &scenario{}
	for _, r := range routes {
		measured.loads = append(measured.loads, e.load(b, r, w))
	}
	perSecond := halfOfLowest(b, measured.loads)
	measured.name = fmt.Sprintf("%s, %.0f requests/s", w.name, perSecond)
	measured.pair(b, *rounds, *duration)
	for i := range routes[1:] {
		sent := 0
		for _, m := range measured.samples[1+i] {
			sent += len(m.latencies)
		}
		NewWithT(b).Expect(e.calls(b, 1+i)).To(BeNumerically(">=", sent), "decisions for %s", routes[1+i].Name)
	}
	through := &throughEnvoy{measured}
	s.table(measured.name, []string{"target", "requests/s", "p50", "p99", "added p50", "added p99", "limiter's CPU per request", "Redis CPU per request"}, through.rows()...)
	if *ratelimitBin != "" {
		_, _ = os.Stdout.WriteString(tableText("Shares of "+peerName, []string{"", "added p50", "added p99", "CPU of limiter and Redis"}, through.shares()...))
	}
	s.note("Requests arrive at random times, at half of the lowest throughput of the rows. What a row adds is its percentile without the one of\n" +
		"the first row in the same round. All share the cores with the callers.")
}

// halfOfLowest sets the rate of all loads to half of the lowest throughput among them.
func halfOfLowest(tb testing.TB, loads []load) float64 {
	tb.Helper()
	var most []float64
	for i := range loads {
		most = append(most, measure(tb, &loads[i], *duration).perSecond())
	}
	half := slices.Min(most) / 2
	for i := range loads {
		loads[i].perSecond = half
	}
	return half
}

// throughEnvoy is measured loads, of which the first has no limiter and the last may be the peer.
type throughEnvoy struct{ *scenario }

// added returns, by round, what a load adds to a percentile, in milliseconds.
func (e *throughEnvoy) added(at int, share float64) []float64 {
	var all []float64
	for round, m := range e.samples[at] {
		all = append(all, float64(m.percentile(share)-e.samples[0][round].percentile(share))/1e6)
	}
	return all
}

// cpu returns, by round, the CPU time of the limiter and of Redis for a request, in nanoseconds.
func (e *throughEnvoy) cpu(at int) []float64 {
	var all []float64
	for _, m := range e.samples[at] {
		all = append(all, serverCPU(m)+redisCPU(m))
	}
	return all
}

func (e *throughEnvoy) rows() [][]string {
	rows := make([][]string, len(e.loads))
	for i, l := range e.loads {
		median := func(of func(*sample) float64) float64 { return medianOf(e.samples[i], of) }
		rows[i] = []string{l.name, fmt.Sprintf("%.0f", median((*sample).perSecond)), inMillis(median(latency(0.5))), inMillis(median(latency(0.99)))}
		if i == 0 {
			rows[i] = append(rows[i], "-", "-", "-", "-")
			continue
		}
		rows[i] = append(rows[i], spread(e.added(i, 0.5), "%.2f")+" ms", spread(e.added(i, 0.99), "%.2f")+" ms",
			inMicros(median(serverCPU)), inMicros(median(redisCPU)))
	}
	return rows
}

// shares returns what the loads add in relation to the last one, the peer, in the same round.
func (e *throughEnvoy) shares() [][]string {
	peer := len(e.loads) - 1
	var rows [][]string
	for i := 1; i < peer; i++ {
		rows = append(rows, []string{
			e.loads[i].name,
			ratios(e.added(i, 0.5), e.added(peer, 0.5)), ratios(e.added(i, 0.99), e.added(peer, 0.99)), ratios(e.cpu(i), e.cpu(peer)),
		})
	}
	return rows
}

// ratios formats the ratios of the values.
func ratios(values, of []float64) string {
	all := make([]float64, len(values))
	for i := range all {
		all[i] = values[i] / of[i]
	}
	return spread(all, "%.2f")
}

// Both filters ask Weir, and a request that no limiter decides fails.
func TestRequestsThroughEnvoyAreDecided(t *testing.T) {
	g := NewWithT(t)
	weir, _ := weirTargets(t, policyFolder(t, 0))
	away := &target{address: testenv.FreeAddr(t)}
	e := startEnvoy(t,
		&route{Name: "none"},
		&route{Name: "ratelimit", Filter: "ratelimit", target: weir}, &route{Name: "ext_authz", Filter: "ext_authz", target: weir},
		&route{Name: "away", Filter: "ratelimit", target: away}, &route{Name: "away", Filter: "ext_authz", target: away},
	)
	for i, r := range e.Routes {
		err := e.load(t, r, oneAllowed()).calls[0](t.Context(), 0)
		if r.Name == "away" {
			g.Expect(err).To(MatchError(errUnexpected), r.Filter)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), r.Name)
		if r.Filter != "" {
			g.Expect(e.calls(t, i)).To(Equal(1), r.Name)
			g.Expect(limitOf(t, r)).To(HavePrefix(`"bench/allowed-all"`), r.Name)
		}
	}
}

// limitOf returns the header with the limits that Weir applied to a request through the route.
func limitOf(t *testing.T, r *route) string {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Address, nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.Host = "bench.example"
	request.Header.Set("X-User", "user-0")
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	return response.Header.Get("RateLimit")
}

func TestWhatLimitersAddInEnvoy(t *testing.T) {
	of := func(p50, p99 int, cpu time.Duration) *sample {
		m := newSample(time.Second)
		for i := range 100 {
			m.latencies = append(m.latencies, time.Duration(p50)*time.Millisecond)
			if i >= 99 {
				m.latencies[i] = time.Duration(p99) * time.Millisecond
			}
		}
		m.server, m.redis = 60*cpu, 40*cpu
		return m
	}
	e := &throughEnvoy{&scenario{
		loads:   []load{{name: "none"}, {name: "Weir"}, {name: "peer"}},
		samples: [][]*sample{{of(1, 2, 0)}, {of(2, 4, time.Microsecond)}, {of(5, 6, 4*time.Microsecond)}},
	}}
	g := NewWithT(t)
	g.Expect(e.rows()).To(Equal([][]string{
		{"none", "100", "1.00 ms", "2.00 ms", "-", "-", "-", "-"},
		{"Weir", "100", "2.00 ms", "4.00 ms", "1.00 (1.00 to 1.00) ms", "2.00 (2.00 to 2.00) ms", "0.6 us", "0.4 us"},
		{"peer", "100", "5.00 ms", "6.00 ms", "4.00 (4.00 to 4.00) ms", "4.00 (4.00 to 4.00) ms", "2.4 us", "1.6 us"},
	}))
	g.Expect(e.shares()[0]).To(Equal([]string{"Weir", "0.25 (0.25 to 0.25)", "0.50 (0.50 to 0.50)", "0.25 (0.25 to 0.25)"}))
}
