// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv/browser"
)

// pageTimeout bounds what one test does in the browser.
const pageTimeout = 5 * time.Minute

// tab is one tab of Chromium, with cookies of its own.
type tab struct {
	*site

	t    *testing.T
	g    *WithT
	ctx  context.Context //nolint:containedctx // chromedp keeps the tab in it
	axe  string
	mu   sync.Mutex
	logs []string // errors that the browser logged
}

// open opens a tab and logs in with the token, "" does not.
func (s *site) open(t *testing.T, chromium context.Context, token string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	NewWithT(t).Expect(chromedp.Do(ctx)).To(Succeed())
	ctx, cancel = context.WithTimeout(ctx, pageTimeout)
	t.Cleanup(cancel)
	b := &tab{site: s, t: t, g: NewWithT(t), ctx: ctx, axe: browser.Axe(t)}
	b.g.Expect(chromedp.Listen(ctx, b.record)).To(Succeed())
	if token != "" {
		path, _ := s.console.NewCode(token, "alice@shop.example")
		b.visit(path)
		b.g.Expect(evaluate[string](b, "location.href")).To(Equal(s.url+"/console/"), "the code has left the address")
	}
	return b
}

// record keeps errors that the browser logs, such as violations of the Content-Security-Policy.
func (b *tab) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork { // a page with an error status is one
			b.logs = append(b.logs, string(e.Entry.Level)+": "+e.Entry.Text)
		}
	case *runtime.EventConsoleAPICalled:
		b.logs = append(b.logs, string(e.Type))
	case *runtime.EventExceptionThrown:
		b.logs = append(b.logs, e.ExceptionDetails.Text)
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.g.Expect(chromedp.Do(b.ctx, actions...)).To(Succeed())
}

func (b *tab) visit(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.url+path), chromedp.WaitReady(chromedp.CSS("main")))
}

// show sets the size of the window and the colors.
func (b *tab) show(width int64, scheme string) {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(width, 900))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.g.Expect(err).NotTo(HaveOccurred())
}

// evaluate returns the result of a script of the test in the page.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	result, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	b.g.Expect(err).NotTo(HaveOccurred(), script[:min(len(script), 100)])
	return result
}

func (b *tab) text() string {
	b.t.Helper()
	return evaluate[string](b, `document.querySelector("main").innerText`)
}

// expectSound expects that the page has no findings of axe-core, no errors, and is not wider than the
// window.
func (b *tab) expectSound(what string) {
	b.t.Helper()
	findings := evaluate[[]string](b, b.axe+`;axe.run(document).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html + " " + n.failureSummary)))`)
	b.g.Expect(findings).To(BeEmpty(), what)
	wide := evaluate[[]string](b, `document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
		.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))`)
	b.g.Expect(wide).To(BeEmpty(), what+": wider than the window")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.g.Expect(b.logs).To(BeEmpty(), what)
}

// focused is the element that has the keyboard.
type focused struct{ Text, Name, Outline string }

// tabTo presses the Tab key until the element with the text or the name has the keyboard. Each element
// on the way must show that it has it.
func (b *tab) tabTo(want string) {
	b.t.Helper()
	var seen []string
	for range 200 {
		b.run(chromedp.KeyEvent(kb.Tab))
		f := evaluate[focused](b, `(e => ({Text: (e.innerText || "").trim(), Name: e.name || "", Outline: getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth}))(document.activeElement)`)
		if f.Text == want || f.Name == want {
			b.g.Expect(f.Outline).To(Equal("solid3px"), want)
			return
		}
		if f.Text != "" || f.Name != "" {
			b.g.Expect(f.Outline).NotTo(HavePrefix("none"), fmt.Sprintf("%+v", f))
		}
		seen = append(seen, strings.Join([]string{f.Text, f.Name}, "/"))
	}
	b.t.Fatalf("the Tab key does not reach %q, only %q", want, seen)
}

// press tabs to the element, presses the key and waits for the next page.
func (b *tab) press(want, key, heading string) {
	b.t.Helper()
	b.tabTo(want)
	b.run(chromedp.KeyEvent(key))
	b.g.Eventually(func() string {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.readyState === "complete" ? document.querySelector("main").innerText : ""`))
		if err != nil { // the page is being replaced
			return ""
		}
		return text
	}, "30s").Should(ContainSubstring(heading), "after "+want)
}
