// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

func newOperator(address string) *Handler {
	engine := &fakeEngine{snapshot: index.NewSnapshot(1, nil)}
	return NewOperator(Options{Engine: engine, State: &fakeState{}, Authorizer: team}, address)
}

// askOperator sends a request with the Host header over a connection to the local address.
func askOperator(h http.Handler, local, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Host, r.RemoteAddr = host, loopback
	r.Header.Set("Authorization", "Bearer root")
	if address, err := net.ResolveTCPAddr("tcp", local); err == nil {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOperatorPortRejectsForeignHosts(t *testing.T) {
	const onLoopback, everywhere, named = "127.0.0.1:8083", ":8083", "Weir.Example:8083"
	for name, tc := range map[string]struct {
		address, local, host string
		want                 int
	}{
		"its address":                    {onLoopback, onLoopback, "127.0.0.1:8083", 200},
		"another port, of a forward":     {onLoopback, onLoopback, "127.0.0.1:40123", 200},
		"no port":                        {onLoopback, onLoopback, "127.0.0.1", 200},
		"another loopback address":       {onLoopback, onLoopback, "127.0.0.2:8083", 200},
		"localhost":                      {onLoopback, onLoopback, "LocalHost:8083", 200},
		"below localhost":                {onLoopback, onLoopback, "weir.localhost:8083", 200},
		"IPv6":                           {onLoopback, onLoopback, "[::1]:8083", 200},
		"IPv6, no port":                  {onLoopback, onLoopback, "[::1]", 200},
		"IPv4 in IPv6":                   {onLoopback, onLoopback, "[::ffff:127.0.0.1]:8083", 200},
		"a foreign name":                 {onLoopback, onLoopback, "evil.example:8083", 421},
		"a foreign name with localhost":  {onLoopback, onLoopback, "localhost.evil.example", 421},
		"a name that ends in localhost":  {onLoopback, onLoopback, "evillocalhost", 421},
		"a name that begins like it":     {onLoopback, onLoopback, "127.0.0.1.evil.example:8083", 421},
		"a foreign address":              {onLoopback, onLoopback, "192.0.2.1:8083", 421},
		"no host":                        {onLoopback, onLoopback, "", 421},
		"no host, without a connection":  {everywhere, "", "", 421},
		"the address of the connection":  {everywhere, "192.0.2.1:8083", "192.0.2.1:8083", 200},
		"another address of the machine": {everywhere, "192.0.2.1:8083", "192.0.2.2:8083", 421},
		"the configured name":            {named, "192.0.2.1:8083", "weir.example:8083", 200},
		"a name below the configured":    {named, "192.0.2.1:8083", "evil.weir.example:8083", 421},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := newOperator(tc.address)
			for _, path := range []string{pathHealth, pathPolicies, pathState + "?policy=shop/a&key=k"} {
				w := askOperator(h, tc.local, tc.host, path)
				g.Expect(w.Code).To(Equal(tc.want), path)
				if tc.want != 200 {
					g.Expect(decodeProblem(g, w).Code).To(Equal(codeMisdirected))
				}
			}
		})
	}
}

func TestOperatorPortServesNoChecks(t *testing.T) {
	g, h := NewWithT(t), newOperator("127.0.0.1:8083")
	for _, path := range []string{pathCheck, pathAuthorize, pathAuthorize + "/x", pathOpenAPI, "/"} {
		g.Expect(askOperator(h, "", "localhost", path).Code).To(Equal(http.StatusNotFound), path)
	}
	for _, path := range []string{pathReset, pathBlock, pathUnblock, pathExplain} {
		g.Expect(askOperator(h, "", "localhost", path).Code).To(Equal(http.StatusMethodNotAllowed), path)
	}
}

// The HTTP port is called by any name of its Service.
func TestHTTPPortAcceptsAllHosts(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}})
	g.Expect(askOperator(h, "", "weir.example", pathHealth).Code).To(Equal(http.StatusOK))
}
