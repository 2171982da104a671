// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCheckStandalone(t *testing.T) {
	g, s := NewWithT(t), start(t)
	var got struct {
		Findings []struct{ Check, Outcome string }
	}
	g.Expect(json.Unmarshal([]byte(s.succeed("check", "-o", "json")), &got)).To(Succeed())
	var lines []string
	for _, f := range got.Findings {
		lines = append(lines, f.Check+" "+f.Outcome)
	}
	g.Expect(lines).To(Equal([]string{"decisions ok", "replicas not checked", "redis not checked", "certificates ok"}))
	g.Expect(s.succeed("check")).To(MatchRegexp(`^ok           decisions     weir devel, \d+ policies, revision 1\n`))
}

func TestCheckWithoutWeir(t *testing.T) {
	g := NewWithT(t)
	code, out, complaint := command(t, "check", "--address", "http://127.0.0.1:1")
	g.Expect(code).To(Equal(1))
	g.Expect(out).To(HavePrefix("FAILED       decisions     --address http://127.0.0.1:1 does not answer"))
	g.Expect(complaint).To(Equal("error: checks failed: 1\n"))
	code, _, complaint = command(t, "check", "--wait", "-1s")
	g.Expect(code).To(Equal(2))
	g.Expect(complaint).To(ContainSubstring("--wait -1s: must not be negative"))
}

func TestCheckWaits(t *testing.T) {
	g, asked := NewWithT(t), 0
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/policies", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"revision":1,"policies":[],"replicas":[]}`))
	})
	mux.HandleFunc("/v1/process", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"certificates":[]}`)) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	code, out, complaint := command(t, "check", "--address", s.URL, "--wait", "1m")
	g.Expect(complaint).To(Equal("Waiting up to 1m, because 1 of the checks failed.\n"))
	g.Expect(code).To(Equal(0))
	g.Expect(out).To(HavePrefix("ok           decisions"))
}
