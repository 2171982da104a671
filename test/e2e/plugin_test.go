// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// plugin is kubectl weir, for the policies of a team.
type plugin struct {
	path  string
	flags []string
}

func newPlugin(i *installation) *plugin {
	GinkgoHelper()
	return &plugin{path: process.Plugin(GinkgoTB()), flags: []string{"--namespace=" + i.shop, "--weir-namespace=" + i.namespace}}
}

// args returns the arguments of a command of the user.
func (p *plugin) args(user string, command ...string) []string {
	return append(append(command, "--as="+user), p.flags...)
}

func (p *plugin) run(ctx context.Context, user string, command ...string) (string, error) {
	return tryTool(ctx, "", p.path, p.args(user, command...)...)
}

func (p *plugin) succeed(ctx context.Context, user string, command ...string) string {
	GinkgoHelper()
	out, err := p.run(ctx, user, command...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// console runs the command of that name until the spec ends, and returns the link that it prints.
func (p *plugin) console(user string) string {
	GinkgoHelper()
	command := testenv.Command(p.path, p.args(user, "console")...)
	command.Stderr = GinkgoWriter
	out, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(command.Process.Signal(syscall.SIGINT)).To(Succeed())
		Expect(command.Wait()).To(Succeed(), "it ends by Ctrl-C")
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(line)
}

// browser reads pages of the console, with cookies.
type browser struct {
	client *http.Client
	site   *url.URL
}

func newBrowser(link string) *browser {
	GinkgoHelper()
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	site, err := url.Parse(link)
	Expect(err).NotTo(HaveOccurred())
	return &browser{client: &http.Client{Jar: jar}, site: site}
}

// open returns the page of a link, or of a path.
func (b *browser) open(ctx context.Context, link string) string {
	GinkgoHelper()
	address, err := b.site.Parse(link)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	response, err := b.client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return string(page)
}
