// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

func budgetOf(t *testing.T, w *world, policy, user string) budget {
	t.Helper()
	body := fmt.Sprintf(`{"policies":[%q],"attributes":{"descriptors":[{"entries":[{"key":"user","value":%[2]q},{"key":"rule-0-match-0","value":%[2]q}]}]},"peek":true}`, policy, user)
	return w.peek(t, body)
}

// startModel starts an upstream that responds like a language model. A stream has an event per
// token count in its query, then waits until the test or the request ends.
func startModel(t *testing.T, w *world) (hungUp chan struct{}) {
	t.Helper()
	ended, hungUp := make(chan struct{}), make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens := r.URL.Query()["tokens"]
		switch r.URL.Path {
		case "/v1/complete":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"choices":[],"usage":{"total_tokens":%s}}`, tokens[0])
		case "/v1/fail":
			w.WriteHeader(http.StatusBadGateway)
		case "/v1/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "data: {\"choices\":[]}\n\n")
			for _, n := range tokens {
				_, _ = fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"total_tokens\":%s}}\n\n", n)
			}
			if r.URL.Query().Has("end") {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-ended:
			case <-r.Context().Done():
				hungUp <- struct{}{}
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	w.upstream = server.Listener.Addr().String()
	return hungUp
}

// hangUp requests a stream, reads its events, and ends the connection.
func hangUp(t *testing.T, w *world, path, user string, events int) {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.proxy+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("X-User-Id", user)
	response, err := clientFrom(t, "127.0.0.2").Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	lines := bufio.NewScanner(response.Body)
	for events > 0 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			events--
		}
	}
	g.Expect(events).To(BeZero())
}

// withTokens is the configuration of the page with IDs of streams, with the filters that read tokens.
func (w *world) withTokens(t *testing.T) string {
	t.Helper()
	page := blocks(t, "envoy-ai-gateway.md")
	const router = "          - name: envoy.filters.http.router\n"
	filters := "      " + strings.ReplaceAll(indent(page[4]), "\n", "\n      ")
	return w.printed(t, page[2], router, strings.TrimRight(filters, " ")+router)
}

// Requests reserve the estimate, and their ends commit the tokens.
func TestTokenBudgetsOfThePage(t *testing.T) {
	page := blocks(t, "envoy-ai-gateway.md")
	w := newWorld(t, page[1], page[3])
	hungUp := startModel(t, w)
	admin := startEnvoy(t, w, w.withTokens(t))
	g, url, client := NewWithT(t), "http://"+w.proxy, clientFrom(t, "127.0.0.2")
	of := func(user string) func() budget {
		return func() budget { return budgetOf(t, w, "ai/stream-tokens", user) }
	}
	for path, user := range map[string]string{"/v1/complete?tokens=1000": "json", "/v1/stream?tokens=10&tokens=1000&end": "stream"} {
		// A client cannot choose the ID: each request has its own.
		for range 2 {
			a := get(t, client, url+path, "X-User-Id", user, "X-Request-Id", "the-same")
			g.Expect(a.status).To(Equal(http.StatusOK), a.body)
			g.Expect(a.header.Get("RateLimit")).To(HavePrefix(`"ai/stream-tokens-hourly";r=9`))
		}
		g.Eventually(of(user)).Should(Equal(budget{Used: 2000, Remaining: 98_000}), user)
	}

	hangUp(t, w, "/v1/stream?tokens=700", "impatient", 2)
	<-hungUp
	g.Eventually(of("impatient")).Should(Equal(budget{Used: 700, Remaining: 99_300}), "the tokens until then")

	// Without tokens the estimate stays held.
	g.Expect(get(t, client, url+"/v1/fail", "X-User-Id", "failed").status).To(Equal(http.StatusBadGateway))
	hangUp(t, w, "/v1/stream", "early", 1)
	<-hungUp
	g.Eventually(func() float64 { return envoyStat(t, admin, "http.http.downstream_rq_active") }).Should(BeZero())
	for _, user := range []string{"failed", "early"} {
		g.Expect(of(user)()).To(Equal(budget{Used: 4096, Held: 4096, Remaining: 100_000 - 4096}), user)
	}
	g.Expect(envoyStat(t, admin, "cluster.weir.upstream_rq_total")).To(BeEquivalentTo(4*2 + 2 + 1 + 1))

	// What is in flight counts: 24 estimates of 4096 fit in 100,000.
	for range 24 {
		g.Expect(get(t, client, url+"/v1/fail", "X-User-Id", "many").status).To(Equal(http.StatusBadGateway))
	}
	g.Expect(get(t, client, url+"/v1/fail", "X-User-Id", "many").status).To(Equal(http.StatusTooManyRequests))
}

// costRule is a rule of a BackendTrafficPolicy.
type costRule struct {
	Cost struct {
		Request  struct{ Number uint64 }
		Response struct{ Metadata metadataKey }
	}
}

type metadataKey struct{ Namespace, Key string }

// published is the filter as Envoy Gateway configures it for the rule of the page: a peek, and a charge.
func published(t *testing.T, page []string) string {
	t.Helper()
	g := NewWithT(t)
	var policy struct {
		Spec struct {
			RateLimit struct{ Global struct{ Rules []costRule } }
		}
	}
	g.Expect(yaml.Unmarshal([]byte(page[0]), &policy)).To(Succeed())
	cost := policy.Spec.RateLimit.Global.Rules[0].Cost
	actions := `
                    - actions: &actions
                      - generic_key: {descriptor_key: httproute/ai/chat/rule/0/match/0/*, descriptor_value: httproute/ai/chat/rule/0/match/0/*}
                      - request_headers: {header_name: x-user-id, descriptor_key: rule-0-match-0}
                      hits_addend: {number: %d}
                    - actions: *actions
                      hits_addend: {format: "%%DYNAMIC_METADATA(%s:%s)%%"}
                      apply_on_stream_done: true
`
	return fmt.Sprintf(actions, cost.Request.Number, cost.Response.Metadata.Namespace, cost.Response.Metadata.Key)
}

// The calls of Envoy Gateway's configuration need lateCharges.
func TestPublishedTokenBudgets(t *testing.T) {
	page := blocks(t, "envoy-ai-gateway.md")
	w := newWorld(t, page[1], page[3])
	hungUp := startModel(t, w)
	before, rest, _ := strings.Cut(w.withTokens(t), "rate_limits:\n")
	_, after, _ := strings.Cut(rest, "apply_on_stream_done: true\n")
	admin := startEnvoy(t, w, replace(t, before+"rate_limits:"+published(t, page)+after, "domain: tokens", "domain: ai/gateway/http"))
	g, client := NewWithT(t), clientFrom(t, "127.0.0.2")
	complete := func(tokens int) answer {
		return get(t, client, fmt.Sprintf("http://%s/v1/complete?tokens=%d", w.proxy, tokens), "X-User-Id", "alice")
	}
	used := func() int64 { return budgetOf(t, w, "ai/gateway-tokens", "alice").Used }
	for i := range int64(3) { // nothing is held in between
		g.Expect(complete(40_000).status).To(Equal(http.StatusOK))
		g.Eventually(used).Should(Equal(40_000*(i+1)), "a charge is never denied")
	}
	denied := complete(1)
	g.Expect(denied.status).To(Equal(http.StatusTooManyRequests), denied.body)
	g.Expect(denied.body).To(ContainSubstring(`"used":120000`))
	g.Expect(envoyStat(t, admin, "cluster.weir.upstream_rq_total")).To(BeEquivalentTo(3*2+1), "a denied request charges nothing")

	hangUp(t, w, "/v1/stream?tokens=700", "bob", 2)
	<-hungUp
	g.Eventually(func() int64 { return budgetOf(t, w, "ai/gateway-tokens", "bob").Used }).Should(BeEquivalentTo(700))
}
