// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// failedLogins is docs/tasks/failed-logins.md as printed, with other ports and more time for Weir.
type failedLogins struct {
	page string
	w    *world
	// replacer replaces the ports and timeouts of the page.
	replacer *strings.Replacer
}

func newFailedLogins(t *testing.T) *failedLogins {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/tasks/failed-logins.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := &world{weir: testenv.FreeAddr(t), grpc: testenv.FreeAddr(t), upstream: testenv.FreeAddr(t), proxy: testenv.FreeAddr(t)}
	replaced := []string{"              timeout: 1s", "              timeout: 60s", "connect_timeout: 0.25s", "connect_timeout: 20s"}
	for port, address := range map[string]string{
		"8080": w.weir, "8081": w.grpc, "8082": testenv.FreeAddr(t), "8000": w.proxy, "8001": w.upstream,
	} {
		replaced = append(replaced, "127.0.0.1:"+port, address, "{address: 127.0.0.1, port_value: "+port+"}", socket(t, address))
	}
	return &failedLogins{page: string(text), w: w, replacer: strings.NewReplacer(replaced...)}
}

// printed returns the blocks of a language.
func (f *failedLogins) printed(language string) []string {
	blocks := testenv.CodeBlocks(f.page, language)
	for i := range blocks {
		blocks[i] = f.replacer.Replace(blocks[i])
	}
	return blocks
}

// start starts Weir and Envoy by the commands of the page. It returns the address of Envoy's admin interface.
func (f *failedLogins) start(t *testing.T) (weir *exec.Cmd, admin string) {
	t.Helper()
	g := NewWithT(t)
	commands := f.printed("sh")
	flags := strings.Fields(strings.ReplaceAll(commands[0], "\\\n", " "))
	g.Expect(flags[:4]).To(Equal([]string{"go", "run", "./cmd/weir", "standalone"}))
	weir = exec.Command(testenv.Weir(t), append(flags[3:], "--operator-address=")...) // without the console
	weir.Dir = root
	run(t, f.w.weir, weir)
	g.Expect(strings.Fields(commands[1])).To(Equal([]string{"envoy", "-c", "envoy.yaml"}))
	return weir, startEnvoy(t, f.w, f.printed("yaml")[1])
}

func TestFailedLoginsTask(t *testing.T) {
	f := newFailedLogins(t)
	sample, err := os.ReadFile(filepath.Join(root, "config/samples/failed-logins.yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(f.printed("yaml")[0]) {
		NewWithT(t).Expect(string(sample)).To(ContainSubstring(line), "the page shows a part of the sample")
	}
	f.start(t)
	consoles := f.printed("console")
	NewWithT(t).Expect(consoles).To(HaveLen(4))
	for _, console := range consoles {
		command, want, _ := strings.Cut(strings.TrimPrefix(console, "$ "), "\n")
		out, err := exec.Command("bash", "-c", command).CombinedOutput()
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		g.Expect(strings.TrimSpace(string(out))).To(Equal(strings.TrimSpace(want)), command)
	}
}

// hangUpDuringTheCheck ends the connection of a login while Weir decides it.
func (f *failedLogins) hangUpDuringTheCheck(t *testing.T, weir *exec.Cmd, admin string) {
	t.Helper()
	g := NewWithT(t)
	testenv.Halt(t, weir.Process)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.w.proxy+"/login", nil)
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("X-Account", "dave")
	ended := make(chan error)
	go func() {
		_, err := clientFrom(t, "127.0.0.1").Do(r) //nolint:bodyclose // it has no response
		ended <- err
	}()
	inFlight := func() float64 { return envoyStat(t, admin, "cluster.weir.upstream_rq_active") }
	g.Eventually(inFlight, "20s").Should(Equal(1.0))
	cancel()
	g.Expect(<-ended).To(MatchError(context.Canceled))
	g.Eventually(inFlight, "20s").Should(BeZero(), "Envoy cancels the call")
	g.Expect(weir.Process.Signal(syscall.SIGCONT)).To(Succeed())
}

// Hang-ups cost a client nothing, so they must not lock an account, however many.
func TestHangUpsDuringTheCheckLockNothing(t *testing.T) {
	f := newFailedLogins(t)
	weir, admin := f.start(t)
	for range 10 {
		f.hangUpDuringTheCheck(t, weir, admin)
	}
	g := NewWithT(t)
	budgets := func() budget {
		return f.w.peek(t, `{"policies":["shop/failed-logins"],"key":["dave","127.0.0.1/32"],"peek":true}`)
	}
	g.Eventually(budgets, "20s").Should(Equal(budget{Remaining: 5}))
	a := get(t, clientFrom(t, "127.0.0.1"), "http://"+f.w.proxy+"/login", "X-Account", "dave", "X-Password", "wrong")
	g.Expect(a.status).To(Equal(http.StatusUnauthorized))
	g.Eventually(budgets, "20s").Should(Equal(budget{Used: 1, Remaining: 4}))
}
