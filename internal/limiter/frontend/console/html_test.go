// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"html/template"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// The templates in testdata have the same pages for html/template, which knows the context of every value. They are what
// the pages are compared with, byte by byte.

// keyTable is a table of keys. Policies adds the column of policies.
type keyTable struct {
	Keys     []deniedKey
	Blocks   []httptypes.ListedBlock
	Policies bool
}

// targetForm is what the hidden fields of a form contain.
type targetForm struct {
	CSRF   string
	Target *target
}

// templateOf returns the template of a page, within the layout.
func templateOf(t *testing.T, page string) *template.Template {
	t.Helper()
	functions := template.FuncMap{
		"number":  func(n any) string { return number(reflect.ValueOf(n).Int()) },
		"millis":  millis,
		"keyURL":  func(policy, hash string) string { return string(linkToKey(policy, hash)) },
		"visible": visible,
		"parts":   listedParts,
		"why":     why,
		"tableOf": func(keys []deniedKey, blocks []httptypes.ListedBlock, policies bool) keyTable {
			return keyTable{keys, blocks, policies}
		},
		"policyURL": func(policy string) string { return string(linkToPolicy(policy)) },
		"date":      date,
		"share":     percent,
		"join":      strings.Join,
		"form":      func(csrf string, t *target) targetForm { return targetForm{csrf, t} },
	}
	folder := "testdata/templates/"
	parsed := template.New("").Funcs(functions)
	for _, file := range []string{"layout", "parts", page} {
		source, err := os.ReadFile(folder + file + ".html")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_, err = parsed.Parse(strings.ReplaceAll(string(source), "\n", "")) // as add leaves out line breaks
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	return parsed
}

// hostile are texts that try to leave the place where they are written.
var hostile = []string{
	"", "shop/login", `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' autofocus onfocus='alert(1)`, "`", "javascript:alert(1)",
	"data:text/html,<b>", "\x00<\x00", "a+b&amp;c&#39;", "\xff\xfe<\xc3", "{{.CSRF}}", "%", "%s%d", "</title><b>", "</textarea><b>", "--><b>",
	"]]>", "<!--", "\r\n\t\v\f", "\u202ereversed", "\ufeff\ufffd", "ünïcödé ☃ 𝕏", "//evil.example/", strings.Repeat("&<\"", 100),
}

// filler fills pages at random.
type filler struct{ *rand.Rand }

func (f *filler) fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		f.fillStruct(v)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(4), 8))
		for i := range v.Len() {
			f.fill(v.Index(i), "")
		}
	case reflect.Pointer:
		// The pages need these.
		if required := name == "Plot" || name == "Window" || name == "Target"; required || f.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), "")
		}
	default:
		f.fillScalar(v)
	}
}

func (f *filler) fillStruct(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(f.Int64N(4e9), 0).UTC()))
		return
	}
	for i := range v.NumField() {
		switch field := v.Type().Field(i); {
		case field.Anonymous && field.Type.Kind() == reflect.Pointer:
			f.fill(v.Field(i).Elem(), "") // set by the test
		case field.IsExported() || field.Anonymous:
			f.fill(v.Field(i), field.Name)
		}
	}
}

func (f *filler) fillScalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[link]() {
			v.SetString(f.text())
		} else if f.IntN(2) == 0 {
			v.SetString(string(linkToKey(f.text(), f.text())))
		}
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 0, 1, -1, 999, 1000, 59_999, 123_456_789, 1 << 62}[f.IntN(9)])
	case reflect.Float64:
		v.SetFloat([]float64{0, 0.5, 1, 17.2}[f.IntN(4)])
	default:
		panic("no values of kind " + v.Kind().String())
	}
}

func (f *filler) text() string {
	text := hostile[f.IntN(len(hostile))]
	if f.IntN(4) == 0 {
		text += string([]byte{byte(f.IntN(256)), byte(f.IntN(256))})
	}
	return text
}

// Pages are equal to the pages of html/template, with hostile texts in every field.
func TestPagesEscapeLikeHTMLTemplate(t *testing.T) {
	for page, empty := range map[string]func() content{
		"login":    func() content { return &loginPage{} },
		"failure":  func() content { return &failure{} },
		"overview": func() content { return &overviewPage{} },
		"policies": func() content { return &policiesPage{} },
		"policy":   func() content { return &policyPage{} },
		"key":      func() content { return &keyPage{} },
		"confirm":  func() content { return &confirmPage{action: &action{}} },
		"try":      func() content { return &tryPage{} },
	} {
		t.Run(page, func(t *testing.T) {
			g, oracle := NewWithT(t), templateOf(t, page)
			for seed := range seeds.InMemory(2000) {
				f := &filler{rand.New(rand.NewPCG(seed, 1))}
				data := &layout{Content: empty()}
				f.fill(reflect.ValueOf(data.Content).Elem(), "")
				data.Page, data.Title, data.CSRF, data.User = page, f.text(), f.text(), f.text()
				data.Session, data.Guest, data.Refreshing, data.Minutes = f.IntN(2) == 0, f.IntN(2) == 0, f.IntN(2) == 0, f.Int64N(11)
				f.fill(reflect.ValueOf(&data.Refresh).Elem(), "")
				var want strings.Builder
				g.Expect(oracle.ExecuteTemplate(&want, "layout", data)).To(Succeed())
				var got markup
				data.write(&got)
				g.Expect(got.String()).To(Equal(want.String()), "seed "+strconv.FormatUint(seed, 10))
			}
		})
	}
}

// Only html.go writes links, which it makes itself.
func TestOnlyLinksAreAddresses(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("*.go")
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		if file == "html.go" || file == "html_test.go" {
			continue
		}
		source, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		for line := range strings.SplitSeq(string(source), "\n") {
			if strings.Contains(line, `href="%`) {
				g.Expect(line).To(ContainSubstring(", string(linkToKey("), file)
			}
			g.Expect(line).NotTo(MatchRegexp(`(src|action|style|on[a-z]+)="%`), file)
			g.Expect(line).NotTo(MatchRegexp(`=%`), file+": every attribute is quoted")
		}
	}
}

func TestAddCountsItsValues(t *testing.T) {
	g := NewWithT(t)
	var m markup
	m.add("<b>%</b>", `<"'&+>%`)
	g.Expect(m.String()).To(Equal("<b>&lt;&#34;&#39;&amp;&#43;&gt;%</b>"))
	g.Expect(func() { m.add("%") }).To(Panic())
	g.Expect(func() { m.add("%", "a", "b") }).To(Panic())
}
