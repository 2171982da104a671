// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
	"github.com/weir-dev/weir/internal/testenv/process"
)

// docs/tutorials/laptop.md as printed, with other ports.
func TestLaptopTutorial(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/tutorials/laptop.md"))
	g.Expect(err).NotTo(HaveOccurred())
	page := string(text)
	ports := []string{}
	weir, proxy := testenv.FreeAddr(t), testenv.FreeAddr(t)
	for port, address := range map[string]string{
		"8080": weir, "8081": testenv.FreeAddr(t), "8082": testenv.FreeAddr(t), "8000": proxy, "8001": testenv.FreeAddr(t),
	} {
		ports = append(ports, "127.0.0.1:"+port, address, "localhost:"+port, address)
	}
	printed := func(language string, n int) string {
		t.Helper()
		blocks := testenv.CodeBlocks(page, language)
		g.Expect(len(blocks)).To(BeNumerically(">", n), language)
		return strings.NewReplacer(ports...).Replace(blocks[n])
	}

	policies := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(policies, "sign-in.yaml"), []byte(printed("yaml", 0)), 0o600)).To(Succeed())
	command := strings.Fields(strings.ReplaceAll(printed("sh", 0), "\\\n", " "))
	g.Expect(command[:4]).To(Equal([]string{"go", "run", "./cmd/weir", "standalone"}))
	flags := slices.Concat(command[3:], []string{"--operator-address="}) // without the console
	g.Expect(flags[2]).To(Equal("~/policies"))
	flags[2] = policies
	run(t, weir, testenv.Command(process.Weir(t), flags...))
	startCaddyWith(t, &world{proxy: proxy}, printed("caddyfile", 0))

	client := clientFrom(t, "127.0.0.1")
	for i := range 4 {
		expected := printed("console", i/3)
		g.Expect(expected).To(HavePrefix("$ curl -i -X POST -H 'X-Account: bob' " + proxy + "/sign-in\n"))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+proxy+"/sign-in", nil)
		g.Expect(err).NotTo(HaveOccurred())
		r.Header.Set("X-Account", "bob")
		expectPrinted(g, send(t, client, r), expected)
	}
	g.Expect(get(t, client, "http://"+proxy+"/other", "X-Account", "bob").status).To(Equal(http.StatusOK))
}

// expectPrinted expects the status, the headers and the body that the console block shows.
func expectPrinted(g *WithT, a answer, block string) {
	head, body, _ := strings.Cut(block, "\n\n")
	status := regexp.MustCompile(`(?m)^HTTP/1.1 (\d+)`).FindStringSubmatch(head)
	g.Expect(status).To(HaveLen(2))
	g.Expect(strconv.Itoa(a.status)).To(Equal(status[1]), a.body)
	headers := regexp.MustCompile(`(?m)^([-A-Za-z]+): (.*)$`).FindAllStringSubmatch(head, -1)
	g.Expect(headers).NotTo(BeEmpty())
	for _, h := range headers {
		g.Expect(a.header.Get(h[1])).To(Equal(h[2]), h[1])
	}
	if body != "" {
		g.Expect(a.body).To(Equal(body))
	}
}
