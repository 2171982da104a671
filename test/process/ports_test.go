// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// offAddresses turn all ports off.
var offAddresses = []string{"--http-address", "", "--grpc-address", "", "--operator-address", "", "--metrics-address", ""}

// A taken port ends the process before anything else starts.
func TestTakenPortEndsTheProcess(t *testing.T) {
	g := NewWithT(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(taken.Close()).To(Succeed()) }()
	address := taken.Addr().String()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`), 0o600)).To(Succeed())
	managerArgs := []string{"manager", "--redis-url", "redis://127.0.0.1:1", "--kubeconfig", kubeconfig}
	for name, tc := range map[string]struct {
		args  []string
		ports []string
	}{
		"standalone":  {[]string{"standalone", "--policies", "../../config/samples"}, []string{"http", "grpc", "metrics", "operator"}},
		"manager":     {managerArgs, []string{"http", "grpc", "metrics", "operator"}},
		"controllers": {append([]string{"--decisions=false"}, managerArgs...), []string{"http", "metrics"}},
	} {
		for _, port := range tc.ports {
			t.Run(name+"/"+port, func(t *testing.T) {
				g := NewWithT(t)
				args := append(append([]string{}, tc.args...), offAddresses...)
				output, err := testenv.CommandContext(t.Context(), process.Weir(t), append(args, "--"+port+"-address", address)...).CombinedOutput()
				g.Expect(err).To(MatchError("exit status 1"))
				g.Expect(string(output)).To(HaveSuffix("weir: --" + port + "-address \"" + address + "\": address already in use\n"))
				g.Expect(string(output)).NotTo(Or(ContainSubstring("Starting"), ContainSubstring("Redis is unavailable"), ContainSubstring("Waiting for")))
			})
		}
	}
}
