// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// cart limits each account to two requests for the cart.
const cart = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: cart, namespace: shop}
spec:
  matches: [{paths: [/cart]}]
  key: [{type: Header, header: {name: X-Account}}]
  onMissingKey: Deny
  limits: [{name: hourly, algorithm: FixedWindow, threshold: 2, window: 1h}]
`

// debianPython has the Python packages of Debian; another python3 may come first on PATH.
const debianPython = "/usr/bin/python3"

// recipes are the commands that run the files of docs/integrations/recipes.
var recipes = map[string][]string{
	"Express": {"node", "express.js"},
	"FastAPI": {debianPython, "fastapi_app.py"},
	"Java":    {"java", "Weir.java"},
}

// startRecipe starts a recipe and returns its URL. It waits half a second for Weir, or as env sets it.
func startRecipe(t *testing.T, command []string, weir, failMode string, env ...string) string {
	t.Helper()
	path, err := exec.LookPath(command[0])
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), hint)
	address := testenv.FreeAddr(t)
	_, port, err := net.SplitHostPort(address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cmd := testenv.Command(path, command[1])
	cmd.Dir = filepath.Join(root, "docs/integrations/recipes")
	cmd.Env = append(os.Environ(), "WEIR_URL=http://"+weir, "FAIL_MODE="+failMode, "PORT="+port,
		"NODE_PATH=/usr/share/nodejs", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, env...)
	run(t, address, cmd)
	return "http://" + address + "/cart"
}

func TestRecipesAllowAndDeny(t *testing.T) {
	w := newWorld(t, cart)
	for name, command := range recipes {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			url, client := startRecipe(t, command, w.weir, "open", "TIMEOUT_MS=20000"), clientFrom(t, "127.0.0.1")
			for range 2 {
				a := get(t, client, url, "X-Account", name)
				g.Expect(a.status).To(Equal(http.StatusOK), a.body)
				g.Expect(a.body).To(ContainSubstring("cart"))
				g.Expect(a.header).To(And(HaveKey("Ratelimit"), HaveKey("Ratelimit-Policy"), Not(HaveKey("Retry-After"))))
			}
			a := get(t, client, url, "X-Account", name)
			g.Expect(a.status).To(Equal(http.StatusTooManyRequests), a.body)
			g.Expect(a.header.Get("Retry-After")).To(MatchRegexp(`^3[56]\d\d$`))
			g.Expect(a.body).To(ContainSubstring(`"RateLimited"`))
			g.Expect(get(t, client, url, "X-Account", name+"-2").status).To(Equal(http.StatusOK), "of another account")

			a = get(t, client, url)
			g.Expect(a.status).To(Equal(http.StatusForbidden), a.body)
			// More values of one header than Weir accepts: the client must not pass.
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			g.Expect(err).NotTo(HaveOccurred())
			r.Header["X-Account"] = []string{name + "-3"}
			for range 65 {
				r.Header.Add("X-Many", "x")
			}
			response, err := client.Do(r)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		})
	}
}

// logins counts the failed logins of each account.
const logins = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: logins, namespace: shop}
spec:
  matches: [{paths: [/login]}]
  key: [{type: Header, header: {name: X-Account}}]
  onMissingKey: Deny
  reservations:
    maxTTL: 35s
    cost: {cel: "response.code == 401 || response.code == 500 ? 1 : 0"}
    blockOn: Commit
  limits: [{name: failures, algorithm: SlidingLog, threshold: 3, window: 15m}]
`

// The recipes that count outcomes spend units for failures only: for denied logins and for those that throw.
func TestRecipesCountOutcomes(t *testing.T) {
	w := newWorld(t, logins)
	for _, name := range []string{"Express", "FastAPI"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			url, client := startRecipe(t, recipes[name], w.weir, "closed", "TIMEOUT_MS=20000"), clientFrom(t, "127.0.0.1")
			url = strings.Replace(url, "/cart", "/login", 1)
			used := func() budget { return w.peek(t, `{"policies":["shop/logins"],"key":"`+name+`","peek":true}`) }
			for i, login := range []struct {
				password string
				status   int
				used     int64
			}{
				{"correct", 200, 0},
				{"correct", 200, 0},
				{"correct", 200, 0},
				{"correct", 200, 0},
				{"wrong", 401, 1},
				{"none", 500, 2},
				{"correct", 200, 2},
				{"wrong", 401, 3},
				{"correct", 429, 3},
			} {
				g.Expect(get(t, client, url, "X-Account", name, "X-Password", login.password).status).To(Equal(login.status), "login %d", i)
				g.Eventually(used, "30s").Should(Equal(budget{Used: login.used, Remaining: 3 - login.used}), "login %d", i)
			}
		})
	}
}

// Without Weir, or with one that hangs, the fail mode decides.
func TestRecipesWithoutWeir(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0") // it never accepts
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = hanging.Close() })
	for name, command := range recipes {
		for failMode, want := range map[string]int{"open": http.StatusOK, "closed": http.StatusServiceUnavailable} {
			t.Run(name+"/"+failMode, func(t *testing.T) {
				g, client := NewWithT(t), clientFrom(t, "127.0.0.1")
				away := startRecipe(t, command, testenv.FreeAddr(t), failMode)
				g.Expect(get(t, client, away, "X-Account", "a").status).To(Equal(want))

				slow := startRecipe(t, command, hanging.Addr().String(), failMode)
				start := time.Now()
				g.Expect(get(t, client, slow, "X-Account", "a").status).To(Equal(want))
				g.Expect(time.Since(start)).To(And(BeNumerically(">", 400*time.Millisecond), BeNumerically("<", 30*time.Second)))
			})
		}
	}
}
