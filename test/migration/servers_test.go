// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ratelimitcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// domain is the rate limit domain of the scenario.
func (s *scenario) domain() string { return strings.ReplaceAll(s.name, " ", "-") }

// file is the configuration of the scenario, or of parts of it.
func (s *scenario) file(parts ...string) []byte {
	if len(parts) == 0 {
		parts = append([]string{s.config}, s.more...)
	}
	return []byte("domain: " + s.domain() + "\ndescriptors:\n" + strings.Join(parts, "\n") + "\n")
}

// policies returns the converted policies, of each part in a Namespace. Every limit must have been converted.
func (s *scenario) policies(t *testing.T) []byte {
	t.Helper()
	g := NewWithT(t)
	var text bytes.Buffer
	for i, part := range append([]string{s.config}, s.more...) {
		policies, notes, err := convert.EnvoyRatelimit(t.Context(), []convert.File{{Data: s.file(part)}}, convert.Options{Namespace: fmt.Sprintf("%s-%d", s.domain(), i)})
		g.Expect(err).NotTo(HaveOccurred(), "%s", s.file())
		g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)), "%s", s.file())
		for _, p := range policies {
			if s.countsDenied {
				p.Spec.Counting = v1alpha1.CountingAttempts
			}
		}
		g.Expect(convert.Write(&text, policies)).To(Succeed())
	}
	return text.Bytes()
}

// startWeir starts a weir with the policies of all scenarios.
func startWeir(t *testing.T, all []scenario) ratelimitv3.RateLimitServiceClient {
	t.Helper()
	dir := t.TempDir()
	for i := range all {
		NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, all[i].domain()+".yaml"), all[i].policies(t), 0o600)).To(Succeed())
	}
	address := testenv.FreeAddr(t)
	return start(t, address, testenv.Command(process.Weir(t), "standalone", "--policies", dir, "--redis-url", testenv.StartRedis(t).URL,
		"--http-address", "", "--grpc-address", address, "--operator-address", "", "--metrics-address", "", "--store-timeout", "60s"))
}

// startService starts envoyproxy/ratelimit with the configurations of all scenarios.
func startService(t *testing.T, program string, all []scenario) ratelimitv3.RateLimitServiceClient {
	t.Helper()
	g := NewWithT(t)
	root := t.TempDir()
	config := filepath.Join(root, "ratelimit", "config")
	g.Expect(os.MkdirAll(config, 0o700)).To(Succeed())
	for i := range all {
		g.Expect(os.WriteFile(filepath.Join(config, all[i].domain()+".yaml"), all[i].file(), 0o600)).To(Succeed())
	}
	port := func(address string) string {
		_, port, err := net.SplitHostPort(address)
		g.Expect(err).NotTo(HaveOccurred())
		return port
	}
	address := testenv.FreeAddr(t)
	cmd := testenv.Command(program)
	cmd.Env = append(os.Environ(),
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+testenv.StartRedis(t).Addr, "USE_STATSD=false", "LOG_LEVEL=error",
		"GRPC_HOST=127.0.0.1", "GRPC_PORT="+port(address), "HOST=127.0.0.1", "PORT="+port(testenv.FreeAddr(t)),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+port(testenv.FreeAddr(t)),
	)
	return start(t, address, cmd)
}

// start starts the server and waits until it decides. It ends with the test.
func start(t *testing.T, address string, cmd *exec.Cmd) ratelimitv3.RateLimitServiceClient {
	t.Helper()
	g, log := NewWithT(t), &testenv.Log{}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, testenv.DieWithParent()
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	g.Eventually(func() error {
		_, err := client.ShouldRateLimit(t.Context(), requestOf("none", &call{descriptors: []descriptor{{entries: []string{"a=b"}}}}), grpc.WaitForReady(true))
		return err
	}, "30s").Should(Succeed(), "%v", log)
	return client
}

// requestOf returns the request of the call.
func requestOf(domain string, c *call) *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{Domain: domain, HitsAddend: c.hits}
	for _, d := range c.descriptors {
		out := &ratelimitcommonv3.RateLimitDescriptor{}
		for _, entry := range d.entries {
			key, value, _ := strings.Cut(entry, "=")
			out.Entries = append(out.Entries, &ratelimitcommonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		if d.peeks {
			out.HitsAddend = wrapperspb.UInt64(0)
		}
		if d.requested > 0 {
			out.Limit = &ratelimitcommonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: d.requested, Unit: typev3.RateLimitUnit_DAY}
		}
		r.Descriptors = append(r.Descriptors, out)
	}
	return r
}

// answersTo sends the calls of the scenario and returns the answers, such as "OK: OK 3/5, OK": the overall code, and for each
// descriptor its code and, if it has a limit, the remaining and all hits.
func answersTo(t *testing.T, client ratelimitv3.RateLimitServiceClient, s *scenario) (answers []string) {
	t.Helper()
	for i := range s.calls {
		response, err := client.ShouldRateLimit(t.Context(), requestOf(s.domain(), &s.calls[i]))
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s, call %d", s.name, i)
		var statuses []string
		for _, status := range response.GetStatuses() {
			text := status.GetCode().String()
			if limit := status.GetCurrentLimit(); limit != nil {
				text += fmt.Sprintf(" %d/%d", status.GetLimitRemaining(), limit.GetRequestsPerUnit())
			}
			statuses = append(statuses, text)
		}
		answers = append(answers, response.GetOverallCode().String()+": "+strings.Join(statuses, ", "))
	}
	return answers
}
