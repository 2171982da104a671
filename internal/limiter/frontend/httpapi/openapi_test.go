// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
	"github.com/weir-dev/weir/test/testenv"
)

// contract is the OpenAPI document with a router to its operations.
type contract struct {
	*openapi3.T
	router routers.Router
	seen   map[string]bool // paths and statuses of the validated answers
}

// loadContract loads the document from the handler.
func loadContract(t *testing.T) *contract {
	t.Helper()
	g := NewWithT(t)
	w := send(newHandler(&fakeEngine{}), http.MethodGet, pathOpenAPI, "")
	g.Expect(w.Code).To(Equal(http.StatusOK))
	g.Expect(w.Header().Get(answer.HeaderContentType)).To(Equal(typeYAML))
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(doc.IsOpenAPI31OrLater()).To(BeTrue())
	g.Expect(doc.Validate(t.Context())).To(Succeed())
	router, err := legacy.NewRouter(doc)
	g.Expect(err).NotTo(HaveOccurred())
	return &contract{T: doc, router: router, seen: map[string]bool{}}
}

// violation returns how the answer, or the request of an allowed or denied check, violates
// the document, or "". It returns text because the error contains the whole document.
func (c *contract) violation(r *http.Request, body string, w *httptest.ResponseRecorder) string {
	if err := c.validateCall(r, body, w); err != nil {
		return err.Error()
	}
	return ""
}

func (c *contract) validateCall(r *http.Request, body string, w *httptest.ResponseRecorder) error {
	route, parameters, err := c.router.FindRoute(r)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(strings.NewReader(body))
	if body != "" {
		r.Header.Set(answer.HeaderContentType, answer.TypeJSON)
	}
	request := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
	if w.Code == http.StatusOK || w.Code == http.StatusTooManyRequests {
		if err := openapi3filter.ValidateRequest(r.Context(), request); err != nil {
			return err
		}
	}
	c.seen[route.Path+" "+strconv.Itoa(w.Code)] = true
	return openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: w.Code, Header: w.Header(),
		Body:    io.NopCloser(bytes.NewReader(w.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

// documented returns each path with its documented statuses, except 499, which no caller
// receives, and 500.
func (c *contract) documented() (all []string) {
	for path, item := range c.Paths.Map() {
		for _, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if status != "499" && status != "500" {
					all = append(all, path+" "+status)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestOpenAPIDocumentsEveryRoute(t *testing.T) {
	g, c := NewWithT(t), loadContract(t)
	o := Options{
		Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team, Process: func(context.Context) *httptypes.Process { return nil }, Console: fakeConsole{},
		Prober: probe.New(probe.Options{}),
	}
	h := New(o)
	g.Expect(h.routes).NotTo(HaveKey(pathProcess), "only on the operator port")
	g.Expect(h.routes).NotTo(HaveKey(pathCode), "only on the operator port")
	maps.Copy(h.routes, NewOperator(o, loopback).routes)
	delete(h.routes, pathConsole) // pages for people
	delete(h.routes, "/")         // leads to them
	documented := slices.Sorted(maps.Keys(c.Paths.Map()))
	documented = slices.DeleteFunc(documented, func(path string) bool { return path == "/v1/authorize/{path}" })
	g.Expect(documented).To(Equal(slices.Sorted(maps.Keys(h.routes))))
	page, err := os.ReadFile("../../../../docs/http.md")
	g.Expect(err).NotTo(HaveOccurred())
	for path, route := range h.routes {
		g.Expect(string(page)).To(ContainSubstring(path), "in docs/http.md")
		methods := slices.Sorted(maps.Keys(c.Paths.Value(path).Operations()))
		if route.methods == nil {
			g.Expect(methods).To(HaveLen(8), path+": any method")
			continue
		}
		// The document describes HEAD together with GET.
		want := slices.DeleteFunc(slices.Clone(route.methods), func(m string) bool { return m == http.MethodHead })
		g.Expect(methods).To(Equal(want), path)
	}
}

func TestOpenAPIDocumentsEveryReasonAndCode(t *testing.T) {
	c := loadContract(t)
	for schema, source := range map[string]struct {
		constant string
		files    []string
	}{
		"Reason": {`\n\tReason\w+ Reason = "(\w+)"`, []string{"../../decision.go"}},
		"Code":   {`(?i:\bcode)[A-Z]\w+ += "(\w+)"`, []string{"problem.go", "../answer/problem.go"}},
	} {
		g := NewWithT(t)
		var want []any
		for _, file := range source.files {
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			for _, match := range regexp.MustCompile(source.constant).FindAllStringSubmatch(string(text), -1) {
				want = append(want, match[1])
			}
		}
		g.Expect(len(want)).To(BeNumerically(">", 9))
		g.Expect(c.Components.Schemas[schema].Value.Enum).To(ConsistOf(want...), schema)
	}
}

// The console and kubectl weir read answers with the types that the handler writes.
func TestOpenAPIDocumentsEveryMember(t *testing.T) {
	c := loadContract(t)
	for schema, value := range map[string]any{
		"Attributes": httptypes.Attributes{}, "BlockList": httptypes.BlockList{}, "TopList": httptypes.TopList{},
		"RateList": httptypes.RateList{}, "FoundKeys": httptypes.FoundKeys{}, "DecisionSums": httptypes.DecisionSums{},
		"DecisionCounts": httptypes.DecisionCounts{}, "Committed": httptypes.Committed{}, "Renewed": httptypes.Renewed{},
		"Charged": httptypes.Charged{}, "ConsoleLink": httptypes.ConsoleLink{}, "Process": httptypes.Process{},
		"PolicyList": httptypes.PolicyList{}, "KeyState": httptypes.KeyState{}, "Changed": httptypes.Changed{},
		"Explanation": httptypes.Explanation{}, "ExplainedPolicy": httptypes.ExplainedPolicy{},
		"TargetList": httptypes.TargetList{}, "TargetedPolicy": httptypes.TargetedPolicy{}, "PolicyTarget": httptypes.PolicyTarget{},
		"ProbeRequest": httptypes.ProbeRequest{}, "ProbeCode": httptypes.ProbeCode{}, "ProbeReport": httptypes.ProbeReport{},
		"ExplainedKeyPart": httptypes.ExplainedKeyPart{}, "NearMiss": httptypes.NearMiss{},
	} {
		NewWithT(t).Expect(differentMembers(c.Components.Schemas[schema].Value, reflect.TypeOf(value), schema)).To(BeEmpty())
	}
}

// differentMembers returns the members that only the schema or only the type has, at any depth.
func differentMembers(schema *openapi3.Schema, of reflect.Type, path string) (different []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice && schema.Items != nil {
		return differentMembers(schema.Items.Value, of.Elem(), path)
	}
	properties := propertiesOf(schema)
	if of.Kind() != reflect.Struct || len(properties) == 0 {
		return nil
	}
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous || name == "" {
			continue
		}
		property := properties[name]
		if property == nil {
			different = append(different, path+"."+name+" is not documented")
			continue
		}
		different = append(different, differentMembers(property.Value, field.Type, path+"."+name)...)
		delete(properties, name)
	}
	for name := range properties {
		different = append(different, path+"."+name+" has no field")
	}
	return different
}

// propertiesOf returns a copy of the properties of the schema and its parts.
func propertiesOf(schema *openapi3.Schema) openapi3.Schemas {
	properties := openapi3.Schemas{}
	maps.Copy(properties, schema.Properties)
	for _, part := range schema.AllOf {
		maps.Copy(properties, part.Value.Properties)
	}
	return properties
}

// Only tests use the library that reads the document.
func TestOpenAPILibraryIsNotInTheBinary(t *testing.T) {
	g := NewWithT(t)
	output, err := testenv.Command("go", "list", "-deps", "../../../../cmd/weir").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	g.Expect(string(output)).To(ContainSubstring("httpapi"))
	g.Expect(string(output)).NotTo(Or(ContainSubstring("kin-openapi"), ContainSubstring("santhosh-tekuri")))
}

// A document that accepts any answer would make the other tests pass.
func TestOpenAPIRejectsOtherAnswers(t *testing.T) {
	c := loadContract(t)
	const problemStart = `{"type":"about:blank","title":"t","status":400,"detail":"d","code":`
	const reset, check = `{"policy":"a/b"}`, `{"policies":["a/b"]}`
	for name, tc := range map[string]struct {
		path, request      string
		status             int
		contentType, body  string
		header, headerText string
	}{
		"another member":    {pathReset, reset, 200, answer.TypeJSON, `{"found":true,"x":1}`, "", ""},
		"a missing member":  {pathReset, reset, 200, answer.TypeJSON, `{}`, "", ""},
		"another type":      {pathReset, reset, 200, answer.TypeJSON, `{"found":"yes"}`, "", ""},
		"another status":    {pathReset, reset, 202, answer.TypeJSON, `{"found":true}`, "", ""},
		"an unknown code":   {pathReset, reset, 400, answer.TypeProblem, problemStart + `"Odd"}`, "", ""},
		"a member too many": {pathReset, reset, 400, answer.TypeProblem, problemStart + `"InvalidRequest","allowed":false}`, "", ""},
		"not a problem":     {pathReset, reset, 400, answer.TypeJSON, problemStart + `"InvalidRequest"}`, "", ""},
		"an invalid header": {pathReset, reset, 503, answer.TypeProblem, problemStart + `"Unavailable"}`, answer.HeaderRetryAfter, "soon"},

		"a denial without a decision": {pathCheck, check, 429, answer.TypeProblem, problemStart + `"RateLimited"}`, "", ""},
		"a decision with another member": {
			pathCheck, check, 200, answer.TypeJSON,
			`{"allowed":true,"reason":"` + string(limiter.ReasonAllowed) + `","policy":"","limit":"","limits":[],"revision":1,"x":1}`, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			if tc.header != "" {
				w.Header().Set(tc.header, tc.headerText)
			}
			write(w, tc.status, tc.contentType, []byte(tc.body))
			r := httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.request))
			NewWithT(t).Expect(c.violation(r, tc.request, w)).NotTo(BeEmpty())
		})
	}
}
