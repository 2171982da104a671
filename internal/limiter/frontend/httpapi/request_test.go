// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// many returns n copies of the pattern with their indexes, separated by commas.
func many(n int, pattern string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(pattern, i)
	}
	return strings.Join(items, ",")
}

func TestCheckRequestsAreDecoded(t *testing.T) {
	named := func(key ...string) *limiter.Check {
		return &limiter.Check{Policies: []string{"shop/login"}, Key: key, Cost: 1}
	}
	matching := func(a plan.Attributes) *limiter.Check { return &limiter.Check{Attributes: a, Cost: 1} }
	tests := map[string]struct {
		body string
		want *limiter.Check
	}{
		"a policy":        {`{"policies":["shop/login"]}`, named()},
		"white space":     {" \t\r\n{ \"policies\" : [ \"shop/login\" ] } \n", named()},
		"escaped name":    {`{"\u0070olicies":["shop\/login"]}`, named()},
		"a key":           {`{"policies":["shop/login"],"key":"user-42"}`, named("user-42")},
		"key of parts":    {`{"policies":["shop/login"],"key":["a","b"]}`, named("a", "b")},
		"eight key parts": {`{"policies":["shop/login"],"key":["1","2","3","4","5","6","7","8"]}`, named("1", "2", "3", "4", "5", "6", "7", "8")},
		"key with escapes": {
			`{"policies":["shop/login"],"key":"\"\\\/\u00e9\uD83D\uDE00{}:\ufffd"}`, named("\"\\/é😀{}:\ufffd"),
		},
		"key with bytes":          {`{"policies":["shop/login"],"key":"é😀"}`, named("é😀")},
		"longest key":             {`{"policies":["shop/login"],"key":"` + strings.Repeat("k", maxText) + `"}`, named(strings.Repeat("k", maxText))},
		"cost and peek":           {`{"policies":["a/b"],"cost":1000000000000,"peek":true}`, &limiter.Check{Policies: []string{"a/b"}, Cost: 1000000000000, Peek: true}},
		"no peek":                 {`{"policies":["shop/login"],"cost":1,"peek":false}`, named()},
		"no attributes":           {`{"attributes":{}}`, matching(plan.Attributes{})},
		"empty attributes":        {`{"attributes":{"host":"","path":""}}`, matching(plan.Attributes{})},
		"zoned address":           {`{"attributes":{"remoteAddress":"fe80::1%eth0"}}`, matching(plan.Attributes{RemoteAddress: netip.MustParseAddr("fe80::1%eth0")})},
		"attributes and policies": {`{"attributes":{"method":"GET"},"policies":["a/b"]}`, &limiter.Check{Policies: []string{"a/b"}, Cost: 1, Attributes: plan.Attributes{Method: "GET"}}},
		"all attributes": {
			`{"attributes":{"targets":["Gateway/infra/public","HTTPRoute/shop/shop/checkout"],"domain":"edge","method":"POST","host":"shop.example","path":"/login","principal":"p",
			"headers":{"X-Api-Key":"k","accept":""},"remoteAddress":"192.0.2.1",
			"descriptors":[{"entries":[{"key":"generic_key","value":"login"},{"key":"k"}]},{"entries":[]}]}}`,
			matching(plan.Attributes{
				Targets: []plan.Target{"Gateway/infra/public", "HTTPRoute/shop/shop/checkout"},
				Method:  "POST", Host: "shop.example", Path: "/login", Principal: "p",
				Headers: map[string]string{"x-api-key": "k", "accept": ""}, RemoteAddress: netip.MustParseAddr("192.0.2.1"),
				Domain:      "edge",
				Descriptors: []plan.Descriptor{{{Key: "generic_key", Value: "login"}, {Key: "k"}}, nil},
			}),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			engine := &fakeEngine{}
			w := sendCheck(engine, tc.body)
			g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
			g.Expect(engine.received).To(Equal(tc.want))
		})
	}
}

// The answer names the invalid field.
func TestInvalidCheckRequestsAreRejected(t *testing.T) {
	with := func(members string) string { return `{"policies":["a/b"],` + members + `}` }
	attribute := func(members string) string { return `{"attributes":{` + members + `}}` }
	tests := map[string]struct{ body, field string }{
		"empty":                       {"", ""},
		"blank":                       {" \n", ""},
		"byte order mark":             {"\ufeff{}", ""},
		"not UTF-8":                   {with("\"key\":\"a\xff\""), ""},
		"not an object":               {`["a/b"]`, ""},
		"null":                        {`null`, ""},
		"cut short":                   {`{"policies":["a/b"]`, ""},
		"cut in a name":               {`{"polic`, ""},
		"cut in a key":                {with(`"key":"ab`), "key"},
		"trailing data":               {`{"policies":["a/b"]} {}`, ""},
		"trailing NUL":                {"{\"policies\":[\"a/b\"]}\x00", ""},
		"NUL between":                 {"{\"policies\":\x00[\"a/b\"]}", "policies"},
		"trailing comma":              {`{"policies":["a/b"],}`, ""},
		"no comma":                    {`{"policies":["a/b"] "cost":1}`, ""},
		"no colon":                    {`{"policies" ["a/b"]}`, ""},
		"unquoted name":               {`{policies:["a/b"]}`, ""},
		"unknown member":              {with(`"burst":1`), "burst"},
		"other case":                  {`{"Policies":["a/b"]}`, "Policies"},
		"long unknown member":         {with(`"` + strings.Repeat("é", 100) + `":1`), strings.Repeat("é", 64)},
		"twice":                       {with(`"cost":1,"cost":2`), "cost"},
		"twice by escape":             {with(`"cost":1,"c\u006fst":2`), "cost"},
		"no members":                  {`{}`, "policies"},
		"only a key":                  {`{"key":"a"}`, "policies"},
		"policies null":               {`{"policies":null}`, "policies"},
		"policies a string":           {`{"policies":"a/b"}`, "policies"},
		"no policies":                 {`{"policies":[],"attributes":{}}`, "policies"},
		"17 policies":                 {`{"policies":[` + many(17, `"a/p%d"`) + `]}`, "policies"},
		"policy a number":             {`{"policies":["a/b",1]}`, "policies[1]"},
		"claims a list":               {attribute(`"claims":[]`), "attributes.claims"},
		"a claim without payload":     {attribute(`"claims":{"sub":"a"}`), "attributes.claims.sub"},
		"a payload without name":      {attribute(`"claims":{"":{}}`), "attributes.claims"},
		"17 payloads":                 {attribute(`"claims":{` + many(17, `"p%d":{}`) + `}`), "attributes.claims"},
		"257 claims":                  {attribute(`"claims":{"jwt":{` + many(257, `"c%d":1`) + `}}`), "attributes.claims.jwt"},
		"a claim twice":               {attribute(`"claims":{"jwt":{"sub":"a","sub":"b"}}`), "attributes.claims.jwt.sub"},
		"a claim that is no value":    {attribute(`"claims":{"jwt":{"sub":nul}}`), "attributes.claims.jwt.sub"},
		"a claim with a bad number":   {attribute(`"claims":{"jwt":{"sub":01}}`), "attributes.claims.jwt.sub"},
		"a claim with a bad exponent": {attribute(`"claims":{"jwt":{"sub":1e999}}`), "attributes.claims.jwt.sub"},
		"a claim nested too deeply":   {attribute(`"claims":{"jwt":` + strings.Repeat(`{"a":`, 8) + `{}` + strings.Repeat(`}`, 9)), "attributes.claims.jwt.a.a.a.a.a.a.a.a"},
		"a list nested too deeply":    {attribute(`"claims":{"jwt":{"a":` + strings.Repeat(`[`, 9) + `1` + strings.Repeat(`]`, 9) + `}}`), "attributes.claims.jwt.a[0][0][0][0][0][0][0]"},
		"policy unqualified":          {`{"policies":["login"]}`, "policies[0]"},
		"policy no namespace":         {`{"policies":["/login"]}`, "policies[0]"},
		"policy no name":              {`{"policies":["shop/"]}`, "policies[0]"},
		"policy two slashes":          {`{"policies":["a/b/c"]}`, "policies[0]"},
		"policy twice":                {`{"policies":["a/b","c/d","a/b"]}`, "policies[2]"},
		"a bad target":                {attribute(`"targets":["Gateway/a/b","shop"]`), "attributes.targets[1]"},
		"targets a text":              {attribute(`"targets":"Gateway/a/b"`), "attributes.targets"},
		"17 targets":                  {attribute(`"targets":[` + many(17, `"Gateway/a/b%d"`) + `]`), "attributes.targets"},
		"key empty":                   {with(`"key":""`), "key"},
		"key null":                    {with(`"key":null`), "key"},
		"key a number":                {with(`"key":42`), "key"},
		"key no parts":                {with(`"key":[]`), "key"},
		"key nine parts":              {with(`"key":[` + many(9, `"%d"`) + `]`), "key"},
		"key part empty":              {with(`"key":["a",""]`), "key[1]"},
		"key part a list":             {with(`"key":[["a"]]`), "key[0]"},
		"key raw control":             {with("\"key\":\"a\nb\""), "key"},
		"key C0 control":              {with(`"key":"a\u0000b"`), "key"},
		"key short escape":            {with(`"key":"a\tb"`), "key"},
		"key DEL":                     {with("\"key\":[\"a\",\"\x7f\"]"), "key[1]"},
		"key C1 control":              {with(`"key":"\u0085"`), "key"},
		"key high surrogate":          {with(`"key":"\ud800"`), "key"},
		"key two high ones":           {with(`"key":"\ud800\ud800"`), "key"},
		"key low surrogate":           {with(`"key":"\udc00\ud800"`), "key"},
		"key unknown escape":          {with(`"key":"\x41"`), "key"},
		"key short hex":               {with(`"key":"\u41"`), "key"},
		"key signed hex":              {with(`"key":"\u+041"`), "key"},
		"key too long":                {with(`"key":"` + strings.Repeat("k", maxText+1) + `"`), "key"},
		"cost zero":                   {with(`"cost":0`), "cost"},
		"cost negative":               {with(`"cost":-1`), "cost"},
		"cost too large":              {with(`"cost":1000000000001`), "cost"},
		"cost huge":                   {with(`"cost":` + strings.Repeat("9", 400)), "cost"},
		"cost with fraction":          {with(`"cost":1.0`), "cost"},
		"cost with exponent":          {with(`"cost":1e3`), "cost"},
		"cost leading zero":           {with(`"cost":01`), "cost"},
		"cost plus":                   {with(`"cost":+1`), "cost"},
		"cost a string":               {with(`"cost":"1"`), "cost"},
		"cost null":                   {with(`"cost":null`), "cost"},
		"peek a number":               {with(`"peek":1`), "peek"},
		"peek a string":               {with(`"peek":"true"`), "peek"},
		"peek longer":                 {with(`"peek":trueish`), ""},
		"attributes null":             {`{"attributes":null}`, "attributes"},
		"unknown attribute":           {attribute(`"ip":"192.0.2.1"`), "attributes.ip"},
		"attribute twice":             {attribute(`"host":"a","host":"b"`), "attributes.host"},
		"attribute a number":          {attribute(`"path":1`), "attributes.path"},
		"attribute too long":          {attribute(`"principal":"` + strings.Repeat("p", maxText+1) + `"`), "attributes.principal"},
		"attribute half a character":  {attribute(`"method":"\ud83d"`), "attributes.method"},
		"address empty":               {attribute(`"remoteAddress":""`), "attributes.remoteAddress"},
		"address with port":           {attribute(`"remoteAddress":"192.0.2.1:80"`), "attributes.remoteAddress"},
		"address a host":              {attribute(`"remoteAddress":"localhost"`), "attributes.remoteAddress"},
		"address leading zero":        {attribute(`"remoteAddress":"192.0.2.010"`), "attributes.remoteAddress"},
		"headers a list":              {attribute(`"headers":["a"]`), "attributes.headers"},
		"header a number":             {attribute(`"headers":{"accept":1}`), "attributes.headers.accept"},
		"header a list of lists":      {attribute(`"headers":{"accept":[["a"]]}`), "attributes.headers.accept[0]"},
		"65 values":                   {attribute(`"headers":{"accept":[` + strings.Repeat(`"",`, 64) + `""]}`), "attributes.headers.accept"},
		"header twice":                {attribute(`"headers":{"x-a":"1","X-A":"2"}`), "attributes.headers.X-A"},
		"header no name":              {attribute(`"headers":{"":"1"}`), "attributes.headers"},
		"1025 headers":                {attribute(`"headers":{` + many(1025, `"h%d":""`) + `}`), "attributes.headers"},
		"domain a number":             {attribute(`"domain":1`), "attributes.domain"},
		"descriptors object":          {attribute(`"descriptors":{}`), "attributes.descriptors"},
		"descriptor a string":         {attribute(`"descriptors":["a"]`), "attributes.descriptors[0]"},
		"descriptor empty":            {attribute(`"descriptors":[{}]`), "attributes.descriptors[0].entries"},
		"descriptor unknown":          {attribute(`"descriptors":[{"limit":1}]`), "attributes.descriptors[0].limit"},
		"17 descriptors":              {attribute(`"descriptors":[` + strings.Repeat(`{"entries":[]},`, 16) + `{"entries":[]}]`), "attributes.descriptors"},
		"entry no key":                {attribute(`"descriptors":[{"entries":[{"value":"v"}]}]`), "attributes.descriptors[0].entries[0].key"},
		"entry value a number":        {attribute(`"descriptors":[{"entries":[{"key":"k","value":1}]}]`), "attributes.descriptors[0].entries[0].value"},
		"entry unknown":               {attribute(`"descriptors":[{"entries":[{"key":"k"},{"k":"v"}]}]`), "attributes.descriptors[0].entries[1].k"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			engine := &fakeEngine{}
			w := sendCheck(engine, tc.body)
			g.Expect(w.Code).To(Equal(http.StatusBadRequest), w.Body.String())
			p := decodeProblem(g, w)
			g.Expect(p.Code).To(Equal("InvalidRequest"))
			g.Expect(p.Field).To(Equal(tc.field), p.Detail)
			g.Expect(engine.received).To(BeNil(), "the engine must not be called")
		})
	}
}

func TestBodyIsBounded(t *testing.T) {
	body := `{"policies":["a/b"]}`
	for name, tc := range map[string]struct{ length, status int }{
		"largest":   {maxBody, http.StatusOK},
		"too large": {maxBody + 1, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := sendCheck(&fakeEngine{}, body+strings.Repeat(" ", tc.length-len(body)))
			g.Expect(w.Code).To(Equal(tc.status))
			if tc.status != http.StatusOK {
				g.Expect(decodeProblem(g, w).Code).To(Equal("BodyTooLarge"))
			}
		})
	}
}

func TestUnreadableBodyIsRejected(t *testing.T) {
	g := NewWithT(t)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, pathCheck, iotest.ErrReader(io.ErrUnexpectedEOF))
	newHandler(&fakeEngine{}).ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(http.StatusBadRequest))
	g.Expect(decodeProblem(g, w).Code).To(Equal("InvalidRequest"))
}

// Header names are converted to lower case more than once. If the second conversion changed a
// name, it could merge two headers.
func TestLowerCaseIsStable(t *testing.T) {
	g := NewWithT(t)
	for char := rune(0); char <= unicode.MaxRune; char++ {
		lower := strings.ToLower(string(char))
		if strings.ToLower(lower) != lower {
			g.Expect(char).To(BeZero(), "lowering %q twice differs", char)
		}
	}
}

// Claims are texts, booleans and integers, also within objects. A name with dots is found before an object.
func TestClaimsAreRead(t *testing.T) {
	g := NewWithT(t)
	engine := &fakeEngine{}
	w := sendCheck(engine, `{"attributes":{"claims":{"jwt":{
		"sub":"42","level":3,"large":9007199254740992,"half":0.5,"negative":-1e2,"admin":true,"none":null,"empty":"",
		"roles":["a",{"b":[true]}],"address":{"country":"FR","geo":{"id":7}},"address.country":"DE","https://a.example/t":"acme"},"other":{}}}}`)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(engine.received.Attributes.Claims).To(Equal(map[string]map[string]string{
		"jwt": {
			"sub": "42", "level": "3", "negative": "-100", "admin": "true", "empty": "",
			"address.geo.id": "7", "address.country": "DE", "https://a.example/t": "acme",
		},
		"other": {},
	}))
}
