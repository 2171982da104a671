// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/proxy"
)

// rendered is a configuration of nginx.
type rendered struct {
	zones, servers strings.Builder
	ids            map[*networkingv1.Ingress]int
	repeated       bool // nginx rejects it: a server has a location twice
}

// render returns what the template of the controller makes of the servers, without what concerns no limits. Each location
// answers 404 to admitted requests and 503 to others, and names its Ingress in headers.
func render(servers []*server, address string) *rendered {
	r := &rendered{ids: map[*networkingv1.Ingress]int{}}
	for _, s := range servers {
		name := s.host
		if suffix, wildcard := strings.CutPrefix(name, "*."); wildcard {
			name = `~^(?<subdomain>[\w-]+)\.` + strings.ReplaceAll(suffix, ".", `\.`) + `$`
		}
		fmt.Fprintf(&r.servers, "server {\nlisten %s%s;\nserver_name %q", address, map[bool]string{true: " default_server"}[s.host == "_"], name)
		for _, alias := range s.aliases {
			fmt.Fprintf(&r.servers, " %q", alias)
		}
		r.servers.WriteString(";\n")
		regex := false
		for _, l := range s.locations {
			regex = regex || l.rewrites()
		}
		seen := map[string]bool{}
		for _, l := range s.locations {
			modifier := strconv.Quote(l.path)
			if regex {
				modifier = "~* " + strconv.Quote("^"+l.path)
			} else if l.exact {
				modifier = "= " + modifier
			}
			r.repeated = r.repeated || seen[modifier] && !regex
			seen[modifier] = true
			fmt.Fprintf(&r.servers, "location %s {\n%stry_files /none =404;\n}\n", modifier, r.limits(&l))
		}
		r.servers.WriteString("}\n")
	}
	return r
}

// limits returns the directives of the location, and adds the zones of its Ingress.
func (r *rendered) limits(l *location) string {
	i := l.ingress
	served := fmt.Sprintf("add_header X-Served %t always;\n", !l.standIn)
	if i == nil || number(i, "limit-rps", 0) <= 0 && number(i, "limit-rpm", 0) <= 0 {
		return served
	}
	id, known := r.ids[i]
	if !known {
		id = len(r.ids)
		r.ids[i] = id
		allowed := i.Annotations[prefix+"limit-allowlist"]
		if allowed == "" {
			allowed = i.Annotations[prefix+"limit-whitelist"]
		}
		fmt.Fprintf(&r.zones, "geo $remote_addr $allowlist_%d {\ndefault 0;\n", id)
		for network := range strings.SplitSeq(allowed, ",") {
			if ip := net.ParseIP(strings.TrimSpace(network)); ip != nil {
				fmt.Fprintf(&r.zones, "%s 1;\n", ip)
			} else if _, parsed, err := net.ParseCIDR(strings.TrimSpace(network)); err == nil {
				fmt.Fprintf(&r.zones, "%s 1;\n", parsed)
			}
		}
		fmt.Fprintf(&r.zones, "}\nmap $allowlist_%[1]d $limit_%[1]d { 0 $binary_remote_addr; 1 \"\"; }\n", id)
	}
	var text strings.Builder
	for _, zone := range []string{"rps", "rpm"} {
		n := number(i, "limit-"+zone, 0)
		if n <= 0 {
			continue
		}
		if !known {
			fmt.Fprintf(&r.zones, "limit_req_zone $limit_%[1]d zone=%[2]s_%[1]d:1m rate=%[3]dr/%[4]s;\n", id, zone, n, zone[2:])
		}
		fmt.Fprintf(&text, "limit_req zone=%s_%d burst=%d nodelay;\n", zone, id, n*number(i, "limit-burst-multiplier", 5))
	}
	fmt.Fprintf(&text, "add_header X-Ingress %s/%s always;\nadd_header X-Exempt $allowlist_%d always;\n", i.Namespace, i.Name, id)
	return text.String() + served
}

func number(i *networkingv1.Ingress, name string, otherwise int) int {
	if n, err := strconv.Atoi(i.Annotations[prefix+name]); err == nil {
		return n
	}
	return otherwise
}

// source is a running nginx.
type source struct {
	address string
	client  *http.Client
}

// start starts nginx with the Ingresses. It returns nil if the controller's configuration is one that nginx rejects.
func start(t *testing.T, ingresses []*networkingv1.Ingress) *source {
	t.Helper()
	g, log := NewWithT(t), &testenv.Log{}
	address := testenv.FreeAddr(t)
	config := render(serversOf(ingresses), address)
	if config.repeated {
		return nil
	}
	text := "server_names_hash_bucket_size 128;\nreal_ip_header X-Forwarded-For;\nset_real_ip_from 127.0.0.1;\n" + config.zones.String() + config.servers.String()
	cmd := proxy.Nginx(t, text)
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Start()).To(Succeed())
	stop(t, cmd)
	g.Eventually(func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	}, "30s", "5ms").Should(Succeed(), "%s\n%s", text, log)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &source{address: address, client: &http.Client{Transport: transport}}
}

func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// ask sends the request to nginx.
func (s *source) ask(t *testing.T, r request) answer {
	t.Helper()
	g := NewWithT(t)
	out, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+r.path, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	out.Host = r.host
	out.Header.Set("X-Forwarded-For", r.address)
	response, err := s.client.Do(out)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.Copy(io.Discard, response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Expect(response.StatusCode).To(BeElementOf(http.StatusNotFound, http.StatusServiceUnavailable), "%v", r)
	h := response.Header
	return answer{
		ingress: h.Get("X-Ingress"), exempt: h.Get("X-Exempt") == "1", unserved: h.Get("X-Served") == "false",
		admitted: response.StatusCode == http.StatusNotFound,
	}
}
