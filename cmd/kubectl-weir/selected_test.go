// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// ask sends a check to the HTTP port and returns the reason of the decision.
func (s *instance) ask(body string) string {
	s.t.Helper()
	g := NewWithT(s.t)
	response, err := http.Post(s.url+"/v1/check", "application/json", strings.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	var decision struct{ Reason string }
	g.Expect(json.NewDecoder(response.Body).Decode(&decision)).To(Succeed())
	return decision.Reason
}

// logIn sends a login of the account from the address, as a proxy would.
func (s *instance) logIn(account, address string) string {
	s.t.Helper()
	return s.ask(fmt.Sprintf(`{"attributes":{"method":"POST","host":"shop.example","path":"/login",
		"headers":{"x-account":%q},"remoteAddress":%q}}`, account, address))
}

// attack logs in until the account is blocked for the address.
func (s *instance) attack(account, address string) {
	s.t.Helper()
	for range 5 {
		s.logIn(account, address)
	}
	NewWithT(s.t).Expect(s.logIn(account, address)).To(Equal("Blocked"))
}

// fail runs the command against the instance, which must exit with 1, and returns its output and its error.
func (s *instance) fail(args ...string) (out, complaint string) {
	s.t.Helper()
	code, out, complaint := command(s.t, append(args, s.flags...)...)
	NewWithT(s.t).Expect(code).To(Equal(1), out+complaint)
	return out, complaint
}

// A key of two parts is not named by one of them: the error names both, and --part finds the key.
func TestKeyOfTwoPartsByOnePart(t *testing.T) {
	g, s := NewWithT(t), start(t)
	s.attack("user-42", "192.0.2.1")
	for _, args := range [][]string{{"state"}, {"unblock"}, {"reset"}, {"block", "--for", "1h"}} {
		_, complaint := s.fail(append([]string{args[0], "login", "user-42"}, args[1:]...)...)
		g.Expect(complaint).To(Equal("error: key: shop/login has the key [header X-Account, client address]: give both parts in this order; " +
			"--part NAME=VALUE finds listed keys by one part, --shared names requests without the key, --as-given accepts a key of another form, which callers gave with their checks\n"))
	}
	g.Eventually(func() string { return s.succeed("blocks") }, "1m").Should(ContainSubstring("user-42 192.0.2.1"))
	g.Expect(s.succeed("state", "login", "--part", "X-Account=user-42")).To(MatchRegexp(
		`^Key user-42 192.0.2.1 \([0-9a-f]{16}\):\nPolicy:    shop/login\nBlocked:   for (10m|9m\d+s), by limit burst\n`))
	g.Expect(s.succeed("unblock", "login", "--part", "x-account=user-42")).To(MatchRegexp(
		`^Key user-42 192.0.2.1 \([0-9a-f]{16}\):\nLifted the block of the key under shop/login.\n$`))
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("LimitExceeded"), "the spent units stay")
	s.succeed("reset", "login", "user-42", "192.0.2.1")
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
}

func TestPartSelectsSeveralKeys(t *testing.T) {
	g, s := NewWithT(t), start(t)
	out, complaint := s.fail("unblock", "login", "--part", "x-account=user-42", "--all")
	g.Expect(out).To(BeEmpty())
	g.Expect(complaint).To(Equal("error: no listed key of shop/login has --part x-account=user-42: " +
		"a key that is neither blocked nor was denied in the last minutes is named by all its parts\n"))
	for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
		s.attack("user-42", address)
	}
	s.attack("user-43", "192.0.2.1")
	g.Eventually(func() string { return s.succeed("blocks") }, "1m").Should(And(
		ContainSubstring("user-42 192.0.2.1"), ContainSubstring("user-42 192.0.2.2"), ContainSubstring("user-43 192.0.2.1")))
	for _, args := range [][]string{{"state"}, {"unblock"}, {"reset"}, {"block", "--for", "1h"}} {
		out, complaint = s.fail(append([]string{args[0], "login", "--part", "x-account=user-42"}, args[1:]...)...)
		g.Expect(complaint).To(Equal("error: 2 keys have --part x-account=user-42: choose one with --key-hash, or all with --all\n"))
		g.Expect(out).To(And(HavePrefix("POLICY"), ContainSubstring("user-42 192.0.2.1"), ContainSubstring("user-42 192.0.2.2"), Not(ContainSubstring("user-43"))))
	}
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Blocked"), "nothing was changed")
	var acted struct {
		Keys []struct {
			KeyHash string
			Answer  struct{ Blocked bool }
		}
	}
	g.Expect(json.Unmarshal([]byte(s.succeed("state", "login", "--part", "x-account=user-42", "--all", "-o", "json")), &acted)).To(Succeed())
	g.Expect(acted.Keys).To(HaveLen(2))
	g.Expect(acted.Keys[0].Answer.Blocked).To(BeTrue())
	g.Expect(strings.Count(s.succeed("reset", "login", "--part", "x-account=user-42", "--all"), "Reset the key under shop/login.")).To(Equal(2))
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
	g.Expect(s.logIn("user-42", "192.0.2.2")).To(Equal("Allowed"))
	g.Expect(s.logIn("user-43", "192.0.2.1")).To(Equal("Blocked"), "another account")
	g.Expect(s.succeed("unblock", "login", "--part", "x-account=user-42", "--all")).To(And(
		ContainSubstring("denied ("), HaveSuffix("\nNone of these keys is blocked.\n")))
	_, complaint = s.fail("state", "login", "--part", "account=user-42")
	g.Expect(complaint).To(Equal("error: part: shop/login has no such part: its parts are x-account, remoteAddress\n"))
	_, complaint = s.fail("block", "login", "--part", "remoteAddress=192.0.2.77", "--for", "1h")
	g.Expect(complaint).To(HavePrefix("error: no listed key of shop/login has --part remoteAddress=192.0.2.77"))
}

// The commands that who prints lift the blocks and denials that it found.
func TestWhoPrintsWhatLifts(t *testing.T) {
	g, s := NewWithT(t), start(t)
	g.Expect(s.succeed("who", "user-42")).To(Equal("No key with user-42 is blocked, or was denied in the last minutes.\n"))
	s.attack("user-42", "192.0.2.1")
	for range 4 { // the last one is denied
		s.ask(`{"policies":["shop/burst"],"attributes":{"remoteAddress":"192.0.2.1"}}`)
	}
	s.succeed("block", "password-reset", "user-42", "--for", "1h")
	g.Eventually(func() string { return s.succeed("who", "user-42") }, "1m").Should(MatchRegexp(
		`^POLICY +KEY +HASH +STATE +LIFT WITH\n` +
			`shop/login +user-42 192.0.2.1 +([0-9a-f]{16}) +blocked for (10m|9m\d+s) by limit burst +kubectl weir unblock login --key-hash [0-9a-f]{16} -n shop\n` +
			`shop/password-reset +user-42 +[0-9a-f]{16} +blocked for (1h|59m\d+s) by an operator +kubectl weir unblock password-reset --key-hash [0-9a-f]{16} -n shop\n$`))
	table := s.succeed("who", "192.0.2.1")
	g.Expect(table).To(And(MatchRegexp(`shop/burst +192.0.2.1 +[0-9a-f]{16} +denied \(1\) +kubectl weir reset burst --key-hash `), ContainSubstring("shop/login")))
	for _, line := range regexp.MustCompile(`kubectl weir (.*) -n shop`).FindAllStringSubmatch(table, -1) {
		s.succeed(strings.Fields(line[1])...)
	}
	g.Expect(s.ask(`{"policies":["shop/burst"],"attributes":{"remoteAddress":"192.0.2.1"}}`)).To(Equal("Allowed"))
	g.Expect(s.logIn("user-42", "192.0.2.1")).NotTo(Equal("Blocked"))
	g.Expect(s.succeed("who", "user-42", "-A", "-o", "json")).To(ContainSubstring(`"policy": "shop/password-reset"`))
}

// An address stands for the network that the policy counts as one client, and the output names it.
func TestAddressIsBroughtToItsNetwork(t *testing.T) {
	g, s := NewWithT(t), start(t)
	const note = "The key is user-42 2001:db8::/64: the policy counts this network as one client.\n"
	g.Expect(s.succeed("block", "login", "user-42", "2001:db8::1", "--for", "1h")).To(Equal("Blocked the key under shop/login for 1h.\n" + note))
	g.Expect(s.logIn("user-42", "2001:db8::2")).To(Equal("Blocked"))
	g.Expect(s.succeed("state", "login", "user-42", "2001:db8::3")).To(MatchRegexp(
		`^Policy:    shop/login\nKey:       user-42 2001:db8::/64\nBlocked:   for (1h|59m\d+s), by an operator\n`))
	g.Expect(s.succeed("unblock", "login", "user-42", "2001:db8::1")).To(Equal("Lifted the block of the key under shop/login.\n" + note))
	g.Expect(s.logIn("user-42", "2001:db8::2")).To(Equal("Allowed"))
	_, complaint := s.fail("block", "login", "user-42", "not-an-address", "--for", "1h")
	g.Expect(complaint).To(HavePrefix("error: key[1]: must be an IP address, as the policy's key has the client address; --as-given accepts"))
}
