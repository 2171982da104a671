// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

const (
	// memoryLimit is resources.limits.memory of the chart.
	memoryLimit = 512 << 20
	// goMemoryLimit is what weir gives the Go runtime of it; without a cgroup the test sets it.
	goMemoryLimit = memoryLimit * 9 / 10
)

// weir is a weir process with all frontends, and its Redis.
type weir struct {
	tb      testing.TB
	HTTP    string // address
	GRPC    string // address
	metrics string
	redis   *testenv.Redis
	cmd     *exec.Cmd
	machine *machine
	// ordinary are the rounds beside ordinary loads.
	ordinary []*round
}

// startWeir starts weir with the platform's and the hostile policies, and waits until it is ready.
func startWeir(tb testing.TB, storeTimeout time.Duration) *weir {
	tb.Helper()
	g := NewWithT(tb)
	w := &weir{
		tb: tb, HTTP: testenv.FreeAddr(tb), GRPC: testenv.FreeAddr(tb), metrics: testenv.FreeAddr(tb),
		redis: testenv.StartRedis(tb), machine: &machine{tb: tb},
	}
	log := &testenv.Log{}
	w.cmd = testenv.Command(process.Weir(tb), "standalone", "--policies", policyFolder(tb), "--redis-url", w.redis.URL,
		"--http-address", w.HTTP, "--grpc-address", w.GRPC, "--metrics-address", w.metrics, "--operator-address", "",
		"--store-timeout", storeTimeout.String())
	w.cmd.Env = append(os.Environ(), fmt.Sprint("GOMEMLIMIT=", goMemoryLimit))
	w.cmd.Stdout, w.cmd.Stderr, w.cmd.SysProcAttr = log, log, testenv.DieWithParent()
	g.Expect(w.cmd.Start()).To(Succeed())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.cmd.Wait()
	}()
	tb.Cleanup(func() {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if tb.Failed() {
			tb.Logf("weir:\n%s", log.String())
		}
	})
	g.Eventually(func() (bool, error) {
		select {
		case <-ended:
			return false, StopTrying("weir ended")
		default:
			return testenv.Probe(http.DefaultClient, "http://"+w.HTTP+"/readyz") == nil, nil
		}
	}, "60s", "20ms").Should(BeTrue())
	return w
}

// resident returns the most resident memory of the process since the last call, in bytes.
func (w *weir) resident() int64 {
	w.tb.Helper()
	g := NewWithT(w.tb)
	folder := fmt.Sprintf("/proc/%d/", w.cmd.Process.Pid)
	status, err := os.ReadFile(folder + "status")
	g.Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	g.Expect(found).To(BeTrue())
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(folder+"clear_refs", []byte("5"), 0)).To(Succeed())
	return kib << 10
}
