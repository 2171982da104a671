// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// sourceOf returns a log of the text.
func sourceOf(format Format, text string, fields map[Attribute]string) *Source {
	return &Source{
		Open:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
		Format: format, Fields: fields,
	}
}

// needing returns a plan that reads the attributes which the expressions name.
func needing(when string) []*plan.Plan {
	return []*plan.Plan{{Namespace: "shop", Name: "p", Matches: []plan.Match{{When: when}}}}
}

const (
	everything = `request.method + request.host + request.path + principal + remoteAddress + request.headers["user-agent"] == ""`
	noon       = 1_793_534_400_000_000 // 2026-11-01T12:00:00Z
)

func TestFormats(t *testing.T) {
	all := plan.Attributes{
		Method: "POST", Host: "shop.example", Path: "/login?x=1", Principal: "ann", RemoteAddress: netip.MustParseAddr("192.0.2.7"),
		Headers: map[string]string{"user-agent": `a "quoted" agent`},
	}
	without := func(change func(a *plan.Attributes)) plan.Attributes {
		a := all
		change(&a)
		return a
	}
	anonymous := without(func(a *plan.Attributes) { a.Principal = "" })
	for name, tc := range map[string]struct {
		format Format
		line   string
		fields map[Attribute]string
		want   plan.Attributes
		micros int64
	}{
		"combined": {
			FormatCombined, `192.0.2.7 - ann [01/Nov/2026:13:00:00 +0100] "POST /login?x=1 HTTP/1.1" 429 12 "-" "a \"quoted\" agent"`,
			nil, without(func(a *plan.Attributes) { a.Host = "" }), noon,
		},
		"combined with more fields": {
			FormatCombined, `192.0.2.9 - - [01/Nov/2026:12:00:00 +0000] "POST /login?x=1 HTTP/2.0" 429 12 "-" "a \x22quoted\x22 agent" "10.0.0.1, 192.0.2.7" shop.example ann`,
			map[Attribute]string{"remoteAddress": "10", "host": "11", "principal": "12"},
			all, noon,
		},
		"a request that is not HTTP": {
			FormatCombined, `192.0.2.7 - - [01/Nov/2026:12:00:00 +0000] "\x16\x03\x01" 429 0 "-" "-"`,
			nil,
			plan.Attributes{RemoteAddress: all.RemoteAddress},
			noon,
		},
		"a URL as target": {
			FormatCombined, `192.0.2.7 - - [01/Nov/2026:12:00:00 +0000] "GET http://shop.example HTTP/1.1" 429 0 "-" "-"`,
			nil,
			plan.Attributes{Method: "GET", Path: "/", RemoteAddress: all.RemoteAddress},
			noon,
		},
		"Envoy": {
			FormatEnvoy, `[2026-11-01T12:00:00.125Z] "POST /login?x=1 HTTP/1.1" 429 - 0 1 2 3 "10.0.0.1,192.0.2.7" "a \"quoted\" agent" "id" "shop.example" "10.1.1.1:80"`,
			nil, anonymous, noon + 125_000,
		},
		"Istio": {
			FormatEnvoy, `[2026-11-01T12:00:00.125Z] "POST /login?x=1 HTTP/1.1" 429 - via_upstream - "-" 0 1 2 3 "10.0.0.1" "a \"quoted\" agent" "id" "shop.example" "10.1.1.1:80" cluster 10.1.1.2:80 10.1.1.3:80 192.0.2.7:4711 - default`,
			nil, anonymous, noon + 125_000,
		},
		"JSON of nginx": {
			FormatJSON, `{"time_iso8601":"2026-11-01T13:00:00+01:00","remote_addr":"192.0.2.7","remote_user":"ann","request_method":"POST","host":"shop.example","request_uri":"/login?x=1","status":429,"http_user_agent":"a \"quoted\" agent"}`,
			nil, all, noon,
		},
		"JSON of Caddy": {
			FormatJSON, `{"ts":1793534400.25,"request":{"client_ip":"192.0.2.7","method":"POST","host":"shop.example","uri":"/login?x=1","headers":{"User-Agent":["a \"quoted\" agent"]}},"status":429}`,
			map[Attribute]string{"header.user-agent": "request.headers.User-Agent"},
			anonymous, noon + 250_000,
		},
		"JSON of Envoy": {
			FormatJSON, `{"start_time":"2026-11-01T12:00:00.5Z","method":"POST","authority":"shop.example","path":"/login?x=1","response_code":429,"downstream_remote_address":"192.0.2.7:99","user_agent":"a \"quoted\" agent"}`,
			nil, anonymous, noon + 500_000,
		},
		"CloudFront": {
			FormatCombined, "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status x-host-header cs(User-Agent)\n" +
				"2026-11-01\t12:00:00\t192.0.2.7\tPOST\t/login?x=1\t429\tshop.example\tagent",
			map[Attribute]string{
				"date": "1", "time": "2", "remoteAddress": "3", "method": "4", "path": "5", "status": "6", "host": "7", "header.user-agent": "8",
			},
			without(func(a *plan.Attributes) { a.Principal, a.Headers = "", map[string]string{"user-agent": "agent"} }), noon,
		},
		"JSON with a date of its own": {
			FormatJSON, `{"time":"12:00:00.5","date":"2026-11-01","request":"POST /login?x=1 HTTP/1.1","status":"429","client_ip":"192.0.2.7","user-agent":"a \"quoted\" agent","host":"shop.example"}`,
			map[Attribute]string{"date": "date"},
			anonymous, noon + 500_000,
		},
		"a time without a zone": {
			FormatCombined, `192.0.2.7 - ann "2026-11-01 12:00:00" "POST /login?x=1 HTTP/1.1" 429 12 "-" "a \"quoted\" agent"`,
			nil, without(func(a *plan.Attributes) { a.Host = "" }), noon,
		},
		"a time with spaces and a zone": {
			FormatJSON, `{"time":"2026-11-01 13:00:00 +01:00","request":"POST /login?x=1 HTTP/1.1","status":"429","client_ip":"192.0.2.7","user-agent":"a \"quoted\" agent","host":"shop.example"}`,
			nil, anonymous, noon,
		},
		"JSON with a request line": {
			FormatJSON, `{"time":1793534400000,"request":"POST /login?x=1 HTTP/1.1","status":"429","client_ip":"192.0.2.7","user-agent":"a \"quoted\" agent","host":"shop.example"}`,
			nil, anonymous, noon,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			when := everything
			if tc.want.Host == "" {
				when = strings.Replace(when, " + request.host", "", 1)
			}
			if (tc.format != FormatCombined || tc.fields["date"] != "") && tc.want.Principal == "" {
				when = strings.Replace(when, " + principal", "", 1)
			}
			lines, err := sourceOf(tc.format, tc.line, tc.fields).scan(needing(when))
			g.Expect(err).NotTo(HaveOccurred())
			var e entry
			g.Expect(lines.next(&e)).To(Succeed())
			g.Expect(e.attributes).To(Equal(tc.want))
			g.Expect(time.UnixMicro(e.micros)).To(BeTemporally("==", time.UnixMicro(tc.micros)))
			g.Expect(e.status).To(Equal(429))
			g.Expect(lines.next(&e)).To(MatchError(io.EOF))
		})
	}
}

// Unreadable lines are counted, and the first problem is reported.
func TestUnreadableLines(t *testing.T) {
	const good = `192.0.2.7 - - [01/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`
	for name, tc := range map[string]struct {
		format Format
		text   string
		lines  int
		want   string
	}{
		"few fields":         {FormatCombined, good + "\nx y\n" + good, 2, "line 2: has 2 fields, not 6"},
		"no time":            {FormatCombined, strings.Replace(good, "[01/Nov/2026:12:00:00 +0000]", "-", 1) + "\n" + good, 1, "line 1: has no time"},
		"another time":       {FormatCombined, good + "\n" + strings.Replace(good, "Nov", "Foo", 1), 1, `line 2: time "01/Foo/2026:12:00:00 +0000": must be RFC 3339`},
		"a time before 1970": {FormatCombined, good + "\n" + strings.Replace(good, "2026", "1926", 1), 1, "line 2: time"},
		"a long line":        {FormatCombined, good + "\n" + strings.Repeat("x", 3<<20) + "\n" + good + "\n", 2, "line 2: is longer than 1 MiB"},
		"a long last line":   {FormatCombined, good + "\n" + strings.Repeat("x", 3<<20), 1, "line 2: is longer than 1 MiB"},
		"an infinite time":   {FormatJSON, `{"time": 1793534400}` + "\n" + `{"time": "Infinity"}`, 1, `line 2: time "Infinity": must be RFC 3339`},
		"no number":          {FormatJSON, `{"time": 1793534400}` + "\n" + `{"time": "NaN"}`, 1, `line 2: time "NaN"`},
		"a huge number":      {FormatJSON, `{"time": 1793534400}` + "\n" + `{"time": 1e21}`, 1, `line 2: time "1e21"`},
		"no JSON":            {FormatJSON, `{"time": 1793534400}` + "\n[1]\n\n", 1, "line 2: is not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			lines, err := sourceOf(tc.format, tc.text, nil).scan(needing("true"))
			g.Expect(err).NotTo(HaveOccurred())
			read := 0
			var e entry
			for ; lines.next(&e) == nil; read++ {
			}
			g.Expect(read).To(Equal(tc.lines))
			g.Expect(lines.unreadable).To(Equal(int64(1)))
			g.Expect(lines.first).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestCompressedLog(t *testing.T) {
	g := NewWithT(t)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte(`{"ts": 1793534400}`))
	g.Expect(w.Close()).To(Succeed())
	lines, err := sourceOf(FormatJSON, zipped.String(), nil).scan(nil)
	g.Expect(err).NotTo(HaveOccurred())
	var e entry
	g.Expect(lines.next(&e)).To(Succeed())
	g.Expect(e.micros).To(Equal(int64(noon)))
	_, err = sourceOf(FormatJSON, "\x1f\x8b nothing", nil).scan(nil)
	g.Expect(err).To(HaveOccurred())
}

// A log that cannot be read is an error, even if nothing of it was read.
func TestUnreadableLog(t *testing.T) {
	s := Source{Format: FormatJSON, Open: func() (io.ReadCloser, error) { return os.Open(t.TempDir()) }}
	_, err := s.scan(nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("is a directory")))
}

func TestMissingAttributes(t *testing.T) {
	const line = `192.0.2.7 - - [01/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "agent" x` + "\n"
	network := netip.MustParsePrefix("10.0.0.0/8")
	for name, tc := range map[string]struct {
		plan   plan.Plan
		source Source
		text   string
		want   []string // attributes, or a text
	}{
		"nothing": {plan: plan.Plan{}},
		"what combined has": {plan: plan.Plan{
			Matches: []plan.Match{{Methods: []string{"GET"}, Paths: []string{"/"}}},
			Key:     []plan.KeyPart{{Type: plan.KeyRemoteAddress}, {Type: plan.KeyHeader, Header: "user-agent"}, {Type: plan.KeyPrincipal}},
		}},
		"host":          {plan: plan.Plan{Matches: []plan.Match{{Hosts: []string{"h"}}}}, want: []string{"spec.matches[0].hosts needs the attribute host"}},
		"a given host":  {plan: plan.Plan{Matches: []plan.Match{{Hosts: []string{"h"}}}}, source: Source{Host: "h"}},
		"a header":      {plan: plan.Plan{Key: []plan.KeyPart{{Type: plan.KeyHeader, Header: "x-a"}}}, want: []string{"policy shop/p: spec.key[0] needs the attribute header.x-a, which the log lacks; name its field with --map header.x-a=FIELD"}},
		"a given field": {plan: plan.Plan{Key: []plan.KeyPart{{Type: plan.KeyHeader, Header: "x-a"}}}, source: Source{Fields: map[Attribute]string{"header.x-a": "10"}}},
		"descriptors": {
			plan: plan.Plan{Matches: []plan.Match{{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: "a"}}}}, Key: []plan.KeyPart{{Type: plan.KeyDescriptor, Descriptor: "b"}}},
			want: []string{"attribute domain", "attribute descriptor.a", "attribute descriptor.b"},
		},
		"expressions": {
			plan: plan.Plan{
				Matches: []plan.Match{{When: `request.host == "h"`}}, Key: []plan.KeyPart{{Type: plan.KeyExpression, Expression: `request.headers["x-b"]`}},
				Overrides: []plan.Override{{CIDRs: []netip.Prefix{network}, When: "request.headers.exists(h, true)"}},
			},
			want: []string{"spec.matches[0].when needs the attribute host", "spec.key[0] needs the attribute header.x-b", "spec.overrides[0].when reads all of header, which no log has"},
		},
		"a disabled policy": {plan: plan.Plan{Mode: plan.ModeDisabled, Matches: []plan.Match{{Hosts: []string{"h"}}}}},
		"not a number":      {source: Source{Fields: map[Attribute]string{"host": "vhost"}}, want: []string{"--map host=vhost: must be the number of a field, from 1"}},
		"an empty log":      {text: "\n", want: []string{"the log is empty"}},
		"JSON without time": {source: Source{Format: FormatJSON}, text: "{}", want: []string{"no line has a time; name its field with --map time=FIELD"}},
		"no such field":     {plan: plan.Plan{Key: []plan.KeyPart{{Type: plan.KeyPrincipal}}}, source: Source{Format: FormatJSON, Fields: map[Attribute]string{"principal": "who"}}, text: `{"ts": 1}`, want: []string{"--map principal=who: no field of that name in the first 1 lines"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.plan.Namespace, tc.plan.Name = "shop", "p"
			source := sourceOf(FormatCombined, line, tc.source.Fields)
			if tc.text != "" {
				source = sourceOf(FormatCombined, tc.text, tc.source.Fields)
			}
			if tc.source.Format != "" {
				source.Format = tc.source.Format
			}
			source.Host = tc.source.Host
			_, err := source.scan([]*plan.Plan{&tc.plan})
			if len(tc.want) == 0 {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(HaveOccurred())
			g.Expect(strings.Split(err.Error(), "\n")).To(HaveLen(len(tc.want)))
			for _, want := range tc.want {
				g.Expect(err).To(MatchError(ContainSubstring(want)))
			}
		})
	}
}

func TestParseAttribute(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ParseAttribute("header.X-A")).To(Equal(Attribute("header.x-a")))
	g.Expect(ParseAttribute("descriptor.User")).To(Equal(Attribute("descriptor.User")))
	g.Expect(ParseAttribute("principal")).To(Equal(AttributePrincipal))
	for _, name := range []string{"", "header.", "descriptor.", "Host", "cost"} {
		_, err := ParseAttribute(name)
		g.Expect(err).To(MatchError(ContainSubstring("unknown attribute")), name)
	}
}

// Lines are put in order within 30 s, and the lines of one second are spread over it.
func TestOrder(t *testing.T) {
	const s = int64(second)
	for name, tc := range map[string]struct {
		times, want []int64
		late        int64
	}{
		"one second":              {[]int64{100 * s, 100 * s, 100 * s, 100 * s}, []int64{100 * s, 100*s + 250_000, 100*s + 500_000, 100*s + 750_000}, 0},
		"out of order":            {[]int64{100 * s, 130 * s, 101 * s, 100 * s}, []int64{100 * s, 100*s + 500_000, 101 * s, 130 * s}, 0},
		"fractions":               {[]int64{100*s + 9, 100*s + 3, 100 * s, 101 * s}, []int64{100 * s, 100*s + 3, 100*s + 9, 101 * s}, 0},
		"too late":                {[]int64{100 * s, 131 * s, 100 * s, 102 * s}, []int64{100 * s, 101 * s, 102 * s, 131 * s}, 1},
		"a pause":                 {[]int64{100 * s, 99 * s, 9000 * s, 8970 * s, 8969 * s}, []int64{99 * s, 100 * s, 8970 * s, 8970*s + 500_000, 9000 * s}, 1},
		"earlier than the first":  {[]int64{100 * s, 70 * s, 69 * s}, []int64{70 * s, 70*s + 500_000, 100 * s}, 1},
		"a clock that goes back":  {[]int64{5000 * s, 100 * s, 101 * s}, []int64{4970 * s, 4970*s + 500_000, 5000 * s}, 2},
		"nothing":                 {nil, nil, 0},
		"microseconds of the end": {[]int64{100*s + 999_999, 101 * s}, []int64{100*s + 999_999, 101 * s}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var got []int64
			o := &order{most: 100, emit: func(e *entry) error { got = append(got, e.micros); return nil }}
			for _, micros := range tc.times {
				g.Expect(o.add(&entry{micros: micros})).To(Succeed())
			}
			g.Expect(o.finish()).To(Succeed())
			g.Expect(got).To(Equal(tc.want))
			g.Expect(o.late).To(Equal(tc.late))
			g.Expect(o.held).To(BeZero())
		})
	}
}

// More lines than fit are emitted early, none twice and none lost.
func TestOrderIsBounded(t *testing.T) {
	g := NewWithT(t)
	const most, entries = 1000, 3005
	last, emitted := int64(0), 0
	o := &order{most: most, emit: func(e *entry) error {
		if e.micros < last {
			return errors.New("went back")
		}
		last = e.micros
		emitted++
		return nil
	}}
	for i := range entries {
		g.Expect(o.add(&entry{micros: int64(100+i%20) * second})).To(Succeed())
		if o.held > most {
			t.Fatal(o.held)
		}
	}
	g.Expect(o.finish()).To(Succeed())
	g.Expect(emitted).To(Equal(entries))
}
