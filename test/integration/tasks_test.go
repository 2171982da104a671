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

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// task is a page of docs/tasks as printed, with other ports and more time for Weir. Its commands start Weir and then
// Envoy; its first block of YAML is a part of a sample, its second one the configuration of Envoy.
type task struct {
	page string
	w    *world
	// replacer replaces the ports and timeouts of the page.
	replacer *strings.Replacer
}

func newTask(t *testing.T, name string) *task {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/tasks", name+".md"))
	g.Expect(err).NotTo(HaveOccurred())
	w := &world{weir: testenv.FreeAddr(t), grpc: testenv.FreeAddr(t), upstream: testenv.FreeAddr(t), proxy: testenv.FreeAddr(t)}
	replaced := []string{"              timeout: 1s", "              timeout: 60s", "connect_timeout: 0.25s", "connect_timeout: 20s"}
	for port, address := range map[string]string{
		"8080": w.weir, "8081": w.grpc, "8082": testenv.FreeAddr(t), "8000": w.proxy, "8001": w.upstream,
	} {
		replaced = append(replaced, "127.0.0.1:"+port, address, "{address: 127.0.0.1, port_value: "+port+"}", socket(t, address))
	}
	f := &task{page: string(text), w: w, replacer: strings.NewReplacer(replaced...)}
	sample, err := os.ReadFile(filepath.Join(root, "config/samples", name+".yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(f.printed("yaml")[0]) {
		g.Expect(string(sample)).To(ContainSubstring(line), "the page shows a part of the sample")
	}
	return f
}

// printed returns the blocks of a language.
func (f *task) printed(language string) []string {
	blocks := testenv.CodeBlocks(f.page, language)
	for i := range blocks {
		blocks[i] = f.replacer.Replace(blocks[i])
	}
	return blocks
}

// start starts Weir and Envoy by the commands of the page. It returns the address of Envoy's admin interface.
func (f *task) start(t *testing.T) (weir *exec.Cmd, admin string) {
	t.Helper()
	g := NewWithT(t)
	commands := f.printed("sh")
	flags := strings.Fields(strings.ReplaceAll(commands[0], "\\\n", " "))
	g.Expect(flags[:4]).To(Equal([]string{"go", "run", "./cmd/weir", "standalone"}))
	weir = testenv.Command(process.Weir(t), append(flags[3:], "--operator-address=")...) // without the console
	weir.Dir = root
	run(t, f.w.weir, weir)
	g.Expect(strings.Fields(commands[1])).To(Equal([]string{"envoy", "-c", "envoy.yaml"}))
	return weir, startEnvoy(t, f.w, f.printed("yaml")[1])
}

// runConsoles runs the commands of the page with these shell functions, and expects the printed output.
func (f *task) runConsoles(t *testing.T, functions string) (commands int) {
	t.Helper()
	for _, console := range f.printed("console") {
		command, want, _ := strings.Cut(strings.TrimPrefix(console, "$ "), "\n")
		out, err := testenv.Command("bash", "-c", functions+"\n"+command).CombinedOutput()
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		g.Expect(strings.TrimSpace(string(out))).To(Equal(strings.TrimSpace(want)), command)
		commands++
	}
	return commands
}

func TestFailedLoginsTask(t *testing.T) {
	f := newTask(t, "failed-logins")
	f.start(t)
	NewWithT(t).Expect(f.runConsoles(t, "")).To(Equal(4))
}

func TestTenantQuotaTask(t *testing.T) {
	f := newTask(t, "tenant-quota")
	f.start(t)
	NewWithT(t).Expect(f.runConsoles(t, f.printed("sh")[2])).To(Equal(3))
}

// hangUpDuringTheCheck ends the connection of a login while Weir decides it.
func (f *task) hangUpDuringTheCheck(t *testing.T, weir *exec.Cmd, admin string) {
	t.Helper()
	g := NewWithT(t)
	testenv.Halt(t, weir.Process)
	sent := func() float64 { return envoyStat(t, admin, "cluster.weir.upstream_cx_tx_bytes_total") }
	before := sent()
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
	g.Eventually(inFlight, "30s").Should(Equal(1.0))
	g.Eventually(sent, "30s").Should(BeNumerically(">", before), "Envoy has sent the call")
	before = sent()
	cancel()
	g.Expect(<-ended).To(MatchError(context.Canceled))
	g.Eventually(inFlight, "30s").Should(BeZero(), "Envoy cancels the call")
	g.Eventually(sent, "30s").Should(BeNumerically(">", before), "Envoy has sent that; else Weir would answer first")
	g.Expect(weir.Process.Signal(syscall.SIGCONT)).To(Succeed())
}

// Hang-ups cost a client nothing, so they must not lock an account, however many.
func TestHangUpsDuringTheCheckLockNothing(t *testing.T) {
	f := newTask(t, "failed-logins")
	weir, admin := f.start(t)
	for range 10 {
		f.hangUpDuringTheCheck(t, weir, admin)
	}
	g := NewWithT(t)
	budgets := func() budget {
		return f.w.peek(t, `{"policies":["shop/failed-logins"],"key":["dave","127.0.0.1/32"],"peek":true}`)
	}
	g.Eventually(budgets, "30s").Should(Equal(budget{Remaining: 5}))
	a := get(t, clientFrom(t, "127.0.0.1"), "http://"+f.w.proxy+"/login", "X-Account", "dave", "X-Password", "wrong")
	g.Expect(a.status).To(Equal(http.StatusUnauthorized))
	g.Eventually(budgets, "30s").Should(Equal(budget{Used: 1, Remaining: 4}))
}
