// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls"
	"github.com/weir-dev/weir/internal/limiter/frontend/extauthz"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// maxBody is the largest body of a call over HTTP.
const maxBody = 64 << 10

// maxText is the longest value of a header, and the longest path with a query, of a check over HTTP.
const maxText = 8 << 10

// maxReservation is the longest text of a reservation.
const maxReservation = 8 << 10

// attributeDimensions are the dimensions of the attributes of a request.
var attributeDimensions = []dimension{
	{name: "length of a value", first: 8, most: maxText},
	{name: "headers", of: "length of a value", first: 4},
	{name: "query parameters", of: "length of a value", first: 2},
	{name: "segments of the path", of: "length of a value", first: 2},
}

// descriptorDimensions are the dimensions of the descriptors of a request.
var descriptorDimensions = []dimension{
	{name: "descriptors", first: 2, most: limiter.MaxDescriptors},
	{name: "entries", of: "descriptors", first: 2},
	{name: "length of a value", of: "entries", first: 8},
	{name: "descriptors with the same key", most: limiter.MaxDescriptors, shape: true},
}

var requestRows = map[string]row{
	"Check over HTTP": {
		dimensions: append(attributeDimensions,
			dimension{name: "descriptors", of: "length of a value", first: 2, most: plan.MaxEntries},
			dimension{name: "entries", of: "descriptors", first: 2, most: plan.MaxEntries}), usesRedis: true, mostEncoded: maxBody,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			return posting(tb, redisStore(tb), "/v1/check", map[string]any{"attributes": map[string]any{
				"method": "GET", "host": "h.t", "path": pathOf(n), "headers": headersOf(n), "remoteAddress": "192.0.2.1",
				"domain": "d", "descriptors": jsonDescriptors(n[4], n[5], n[0]),
			}})
		},
	},
	"Check over HTTP: names": {
		dimensions: []dimension{
			{name: "policies", first: 1, most: limiter.MaxChain},
			{name: "parts of the key", first: 1, most: plan.MaxKeyParts},
			{name: "length of a part", of: "parts of the key", first: 8},
		}, usesRedis: true, mostEncoded: maxBody,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			return posting(tb, redisStore(tb), "/v1/check", map[string]any{"policies": formatted(n[0], "shop/named%d-%d", n[1]), "key": keyOf(n[1], n[2])})
		},
	},
	"Rate limit request over gRPC": {
		dimensions: descriptorDimensions, usesRedis: true,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			return callingRateLimits(tb, redisStore(tb), n)
		},
	},
	"Streams of Envoy: reserve and commit": {
		dimensions: []dimension{{name: "streams", first: 2}, {name: "length of the ID", of: "streams", first: 8, most: limiter.MaxIDBytes}},
		// The client of failed logins that succeed: each stream costs nothing.
		attacks:   [][]int{{64, 36}},
		usesRedis: true,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			r := newRateLimits(serving(tb, redisStore(tb)))
			var calls [][]byte
			for i := range n[0] {
				id := fmt.Sprintf("%0*d", n[1], i)
				calls = append(calls,
					rateLimitRequest(tb, "logins", [][2]string{{"account", "mallory"}, {"weir_reservation", id}}),
					rateLimitRequest(tb, "logins", [][2]string{{"account", "mallory"}, {"weir_commit", id}, {"weir_response_code", "405"}}))
			}
			return instance{encoded: lengthOf(calls), use: func(tb testing.TB) any {
				tb.Helper()
				for _, call := range calls {
					r.send(tb, call)
				}
				return nil
			}}
		},
	},
	"Rate limit request over gRPC: without Redis": {
		dimensions: descriptorDimensions,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			return callingRateLimits(tb, memory.NewStore(memory.Options{Keys: 1 << 20}), n)
		},
	},
	"ext_authz request": {
		dimensions: attributeDimensions, usesRedis: true,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			service := extauthz.New(extauthz.Options{Engine: serving(tb, redisStore(tb)), Frontend: limiter.FrontendOptions{TrustedProxies: trusted}})
			headers := headersOf(n)
			headers[":path"], headers[":authority"], headers[":method"] = pathOf(n), "h.t", "GET"
			wire, err := proto.Marshal(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
					SocketAddress: &corev3.SocketAddress{Address: "192.0.2.1"},
				}}},
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "h.t", Path: pathOf(n), Headers: headers}},
			}})
			if err != nil {
				tb.Fatal(err)
			}
			ctx := peer.NewContext(tb.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.9:1"))})
			return instance{encoded: len(wire), use: func(tb testing.TB) any {
				tb.Helper()
				r := &authv3.CheckRequest{}
				if err := proto.Unmarshal(wire, r); err != nil {
					tb.Fatal(err)
				}
				if _, err := service.Check(ctx, r); err != nil {
					tb.Fatal(err)
				}
				return nil
			}}
		},
	},
	"Commit over HTTP": {
		dimensions: []dimension{
			{name: "policies", first: 1, most: limiter.MaxChain},
			{name: "parts of the key", of: "policies", first: 1, most: plan.MaxKeyParts},
			{name: "length of a part", of: "parts of the key", first: 8, most: plan.MaxText},
			{name: "length of the ID", first: 4, most: limiter.MaxIDBytes},
		}, usesRedis: true, mostEncoded: maxReservation,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			reservation := &limiter.Reservation{ID: strings.Repeat("i", n[3])}
			for _, policy := range formatted(n[0], "shop/named%d-%d", n[1]) {
				reservation.Holds = append(reservation.Holds, limiter.Hold{Policy: policy, Key: keyOf(n[1], n[2]), Units: 1})
			}
			return posting(tb, redisStore(tb), "/v1/commit", map[string]any{"reservation": reservation.Encode(), "cost": 1})
		},
	},
	"Charge over HTTP": {
		dimensions: []dimension{
			{name: "policies", first: 1, most: limiter.MaxChain},
			{name: "parts of the key", first: 1, most: plan.MaxKeyParts},
			{name: "length of a part", of: "parts of the key", first: 8},
			{name: "length of the ID", first: 4, most: limiter.MaxIDBytes},
		}, usesRedis: true, mostEncoded: maxBody,
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			return posting(tb, redisStore(tb), "/v1/charge", map[string]any{
				"policies": formatted(n[0], "shop/named%d-%d", n[1]), "key": keyOf(n[1], n[2]), "cost": 1, "id": strings.Repeat("i", n[3]),
			})
		},
	},
	"List of policies": {
		dimensions: matchDimensions[:7],
		// Many small policies.
		attacks: [][]int{{64, 1, 1, 1, 1, 1, 1}},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			policies := crowd(append(n, 1))
			plans, encoded := plansOf(tb, policies)
			e := deciding(tb, admitting{}, published(tb, plans)...)
			return instance{encoded: encoded, use: func(tb testing.TB) any {
				tb.Helper()
				handler := httpapi.NewOperator(httpapi.Options{Engine: e, Logger: slog.New(slog.DiscardHandler)}, "127.0.0.1:1")
				for range 4 { // the responses share one encoding
					request, answer := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1/v1/policies", nil), &unread{header: http.Header{}}
					handler.ServeHTTP(answer, request)
					if answer.code != http.StatusOK {
						tb.Fatal(answer.code)
					}
				}
				return handler
			}}
		},
	},
}

var trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

// unread is a ResponseWriter that discards the body.
type unread struct {
	header http.Header
	code   int
}

func (u *unread) Header() http.Header         { return u.header }
func (u *unread) Write(p []byte) (int, error) { return len(p), nil }
func (u *unread) WriteHeader(code int)        { u.code = code }

// keyOf returns a key with parts of that length.
func keyOf(parts, length int) []string { return formatted(parts, "%0*d", length) }

func pathOf(n []int) string {
	value := strings.Repeat("v", n[0])
	path := strings.Repeat("/"+value, n[3]) + "?" + strings.Join(formatted(n[2], "%[2]d=%[1]s", value), "&")
	return path[:min(len(path), maxText)]
}

func headersOf(n []int) map[string]string {
	cookie := strings.Join(formatted(n[2], "%[2]d=%[1]s", strings.Repeat("v", n[0])), "; ")
	headers := map[string]string{"x-a": strings.Repeat("v", n[0]), "cookie": cookie[:min(len(cookie), maxText)]}
	for _, name := range formatted(n[1]-1, "x-%d") {
		headers[name] = strings.Repeat("v", n[0])
	}
	return headers
}

func jsonDescriptors(descriptors, entries, length int) []any {
	return objectsOf(descriptors, func(i int) any {
		all := []any{map[string]string{"key": "user", "value": fmt.Sprint(strings.Repeat("v", length), i)}}
		for _, key := range formatted(entries-1, "e%d") {
			all = append(all, map[string]string{"key": key, "value": strings.Repeat("v", length)})
		}
		return map[string]any{"entries": all}
	})
}

// posting returns a call of the path. Whatever the answer, it is not an error of the server.
func posting(tb testing.TB, store engine.Store, path string, body any) instance {
	tb.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	handler := httpapi.New(httpapi.Options{Engine: serving(tb, store), Logger: slog.New(slog.DiscardHandler), Frontend: limiter.FrontendOptions{TrustedProxies: trusted}})
	return instance{encoded: len(data), use: func(tb testing.TB) any {
		tb.Helper()
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(data)))
		request.RemoteAddr = "10.0.0.9:1"
		handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK {
			tb.Fatalf("status %d: %s", answer.Code, answer.Body)
		}
		return nil
	}}
}

// rateLimits calls the rate limit service in the encoding of the wire.
type rateLimits struct {
	service any
	call    grpc.MethodHandler
}

func newRateLimits(e *engine.Engine) *rateLimits {
	r := &rateLimits{}
	envoyrls.New(envoyrls.Options{Engine: e}).Register(r)
	return r
}

func (r *rateLimits) RegisterService(d *grpc.ServiceDesc, service any) {
	r.service, r.call = service, d.Methods[0].Handler
}

func (r *rateLimits) send(tb testing.TB, wire []byte) {
	tb.Helper()
	_, err := r.call(r.service, tb.Context(), func(message any) error {
		return message.(interface{ UnmarshalWire(wire []byte) error }).UnmarshalWire(wire)
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
}

// rateLimitRequest returns a request with a descriptor for each list of keys and values.
func rateLimitRequest(tb testing.TB, domain string, descriptors ...[][2]string) []byte {
	tb.Helper()
	message := &ratelimitv3.RateLimitRequest{Domain: domain}
	for _, entries := range descriptors {
		d := &commonv3.RateLimitDescriptor{}
		for _, e := range entries {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: e[0], Value: e[1]})
		}
		message.Descriptors = append(message.Descriptors, d)
	}
	wire, err := proto.Marshal(message)
	if err != nil {
		tb.Fatal(err)
	}
	return wire
}

// callingRateLimits returns a rate limit request with the numbers of descriptorDimensions.
func callingRateLimits(tb testing.TB, store engine.Store, n []int) instance {
	tb.Helper()
	calls, e := 0, serving(tb, store)
	r := newRateLimits(e)
	encode := func() []byte {
		calls++
		value := strings.Repeat("v", n[2])
		return rateLimitRequest(tb, "d", objectsOf(n[0], func(i int) [][2]string {
			entries := [][2]string{{"user", fmt.Sprintf("%s%02d%04d", value, i/n[3], calls)}} // a new key
			for _, key := range formatted(n[1]-1, "e%04d") {
				entries = append(entries, [2]string{key, value})
			}
			return entries
		})...)
	}
	next := encode()
	r.send(tb, next) // prepares the policies
	return instance{encoded: len(next), prepare: func() { next = encode() }, use: func(tb testing.TB) any {
		tb.Helper()
		r.send(tb, next)
		return e
	}}
}

// serving returns an engine with policies of two tenants, among them the most expensive ones.
func serving(tb testing.TB, store engine.Store) *engine.Engine {
	tb.Helper()
	var policies []*v1alpha1.RateLimitPolicy
	for i := range plan.MaxNamespacePolicies {
		policies = append(policies,
			limited(testpolicy.Make(fmt.Sprintf("shop/any%d", i)).Match(v1alpha1.Match{Paths: []string{"/*"}}).Key(testpolicy.HeaderPart("x-a"))),
			limited(testpolicy.Make(fmt.Sprintf("bank/user%d", i)).Match(v1alpha1.Match{Domain: "d", Descriptors: []v1alpha1.DescriptorMatch{{Key: "user"}}}).
				Key(testpolicy.DescriptorPart("user"))),
		)
		for parts := 1; parts <= plan.MaxKeyParts; parts++ {
			named := testpolicy.Make(fmt.Sprintf("shop/named%d-%d", parts, i)).Reservations("1m", 1000)
			for j := range parts {
				named.Key(testpolicy.HeaderPart(fmt.Sprint("x-", j)))
			}
			policies = append(policies, limited(named))
		}
	}
	for i, when := range []string{
		`request.path.split("/").exists(s, s == "v")`,
		`request.headers["x-a"].matches("^v*w$")`,
		`request.query["1"].contains("w")`,
	} {
		policies = append(policies, limited(testpolicy.Make(fmt.Sprintf("when/p%d", i)).Match(v1alpha1.Match{When: when}).
			Key(testpolicy.ExpressionPart(`request.path + request.headers["x-a"]`))))
	}
	logins := testpolicy.Make("shop/logins").Match(v1alpha1.Match{Domain: "logins", Descriptors: []v1alpha1.DescriptorMatch{{Key: "account"}}}).
		Key(testpolicy.DescriptorPart("account")).Reservations("1m", 1000)
	failed := limited(logins)
	failed.Spec.Reservations.Cost = v1alpha1.OutcomeCost{CEL: "response.code in [401, 403] ? 1 : 0"}
	plans, _ := plansOf(tb, append(policies, failed))
	return deciding(tb, store, published(tb, plans)...)
}

func limited(b *testpolicy.Builder) *v1alpha1.RateLimitPolicy {
	for i, algorithm := range []v1alpha1.Algorithm{v1alpha1.AlgorithmFixedWindow, v1alpha1.AlgorithmTokenBucket, v1alpha1.AlgorithmSlidingWindow, v1alpha1.AlgorithmSlidingLog} {
		b.Limit(fmt.Sprint("l", i), algorithm, 100_000, "10m")
	}
	return b.Obj()
}

// redisServer is the Redis of a row.
type redisServer struct{ client redis.UniversalClient }

// servers are the servers of the running rows, by the name of the test.
var servers = map[string]*redisServer{}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	client, err := redisclient.New(testenv.StartRedis(t).URL, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := &redisServer{client}
	servers[t.Name()] = s
	return s
}

// redisStore returns a store on the Redis of the row.
func redisStore(tb testing.TB) engine.Store {
	tb.Helper()
	return redisstore.NewStore(redisstore.Options{Client: servers[tb.Name()].client, Prefix: "weir:", Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
}

// clear removes all keys, and begins to count.
func (s *redisServer) clear(tb testing.TB) {
	tb.Helper()
	for _, err := range []error{s.client.FlushAll(tb.Context()).Err(), s.client.ConfigResetStat(tb.Context()).Err()} {
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// use returns the number of calls since clear, also in scripts, and the bytes of all keys.
func (s *redisServer) use(tb testing.TB) (calls, bytes int) {
	tb.Helper()
	info, err := s.client.Info(tb.Context(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, n := "", 0
		if _, err := fmt.Sscanf(strings.ReplaceAll(line, ":calls=", " "), "cmdstat_%s %d,", &name, &n); err == nil && !strings.HasPrefix(name, "config") && name != "info" {
			calls += n
		}
	}
	keys := s.client.Scan(tb.Context(), 0, "", 10_000).Iterator()
	for keys.Next(tb.Context()) {
		n, err := s.client.MemoryUsage(tb.Context(), keys.Val()).Result()
		if err != nil && !errors.Is(err, redis.Nil) { // a key may have expired
			tb.Fatal(err)
		}
		bytes += int(n)
	}
	if err := keys.Err(); err != nil {
		tb.Fatal(err)
	}
	return calls, bytes
}
