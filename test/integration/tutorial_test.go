// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
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
		command, _, _ := strings.Cut(strings.TrimPrefix(expected, "$ "), "\n")
		out, err := testenv.Command("bash", "-c", command).Output()
		g.Expect(err).NotTo(HaveOccurred(), command)
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		expectPrinted(g, answer{status: response.StatusCode, header: response.Header, body: string(body)}, expected)
	}
	g.Expect(get(t, client, "http://"+proxy+"/other?x=1", "X-Account", "bob").status).To(Equal(http.StatusOK), "a query of the client")
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
