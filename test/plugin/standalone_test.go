// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// The programs understand each other by their flags alone: weir standalone with the sample policies, and the plugin.
func TestStandalone(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	token, operator := filepath.Join(dir, "token"), testenv.FreeAddr(t)
	g.Expect(os.WriteFile(token, []byte("secret\n"), 0o600)).To(Succeed())
	weir := process.Start(t, "standalone", "--policies", "../../config/samples", "--admin-token-file", token, "--operator-address", operator)
	succeed := func(args ...string) string {
		t.Helper()
		code, out, complaint := command(t, append(args, "--address", "http://"+operator, "--token-file", token, "-n", "shop")...)
		g.Expect(code).To(Equal(0), complaint)
		return out
	}
	g.Expect(succeed("version")).To(Equal("kubectl-weir devel (commit unknown, built unknown)\nweir devel\n"))
	g.Expect(succeed("check")).To(MatchRegexp(`^ok           decisions     weir devel, \d+ policies, revision 1\n`))
	g.Expect(succeed("block", "burst", "192.0.2.42", "--for", "10m")).To(Equal("Blocked the key under shop/burst for 10m.\n"))
	g.Expect(succeed("state", "burst", "192.0.2.42")).To(ContainSubstring("by an operator"))
	g.Expect(succeed("unblock", "burst", "192.0.2.42")).To(Equal("Lifted the block of the key under shop/burst.\n"))
	g.Expect(succeed("explain", "-X", "POST", "https://shop.example/login", "-H", "X-Account: bob")).To(ContainSubstring("shop/login"))
	g.Expect(succeed("probe", "http://"+weir.HTTP+"/v1/authorize/login")).To(HavePrefix("Wired:"))
	g.Expect(succeed("console")).To(ContainSubstring("/console/login?code="))
	g.Expect(succeed("blocks")).To(Equal("No key is blocked in Namespace shop.\n"))
	g.Expect(weir.Log.String()).To(MatchRegexp(`"msg":"Unblocked a key",.*"claimedUser":"\S+"`))
}
