// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv/browser"
)

var screenshots = flag.String("screenshots", "", "folder for the screenshots of docs/console.md; empty takes none")

// pages are all pages that a link opens.
func (s *site) pages() map[string]string {
	listed := s.engine.KeyHash("bob@shop.example", "203.0.113.7")
	long := url.Values{"policy": {"shop/largest"}}
	for range 8 {
		long.Add("key", strings.Repeat("w", 255))
	}
	return map[string]string{
		"overview":         "/console/",
		"refreshing":       "/console/?refresh=on",
		"policies":         "/console/policies",
		"search":           "/console/policies?search=nonesuch",
		"policy":           "/console/policy?policy=shop/search",
		"a quiet policy":   "/console/policy?policy=shop/checkout",
		"a hostile policy": "/console/policy?policy=shop/hostile",
		"a large policy":   "/console/policy?policy=shop/largest",
		"not ready":        "/console/policy?policy=shop/reviews",
		"forbidden":        "/console/policy?policy=bank/vault",
		"key":              "/console/key?policy=shop/login&keyHash=" + listed,
		"a long key":       "/console/key?" + long.Encode(),
		"try":              "/console/try",
		"not found":        "/console/nonesuch",
		"login":            "/console/login",
		"a link":           "/console/login?code=another",
	}
}

// views are how pages are shown.
var views = []struct {
	width  int64
	scheme string
}{{360, "light"}, {360, "dark"}, {1280, "light"}, {1280, "dark"}}

func TestPagesAreSound(t *testing.T) {
	s := startSite(t)
	s.check(t, "shop/hostile", 4, `<script>alert(1)</script>"'>`+"\u202e")
	chromium := browser.Start(t)
	for _, token := range []string{reader, operator, ""} {
		t.Run("as "+token, func(t *testing.T) {
			b := s.open(t, chromium, token)
			pages := s.pages()
			if token == "" {
				pages = map[string]string{"login": "/console/login", "without a session": "/console/", "a used link": "/console/login?code=used"}
			}
			for _, view := range views {
				b.show(view.width, view.scheme)
				for name, path := range pages {
					b.visit(path)
					b.expectSound(fmt.Sprintf("%s, %d px, %s", name, view.width, view.scheme))
				}
			}
		})
	}
}

// An operator blocks and lifts with the keyboard alone.
func TestKeyboard(t *testing.T) {
	s := startSite(t)
	b := s.open(t, browser.Start(t), operator)
	for _, view := range views {
		b.show(view.width, view.scheme)
		b.visit("/console/")
		b.press("Skip to the content", kb.Enter, "Overview")
		b.press("shop/search", kb.Enter, "Applies to")
		b.press("192.0.2.88", kb.Enter, "Block for")
		b.tabTo("duration")
		b.press("action", kb.Enter, "Block this key?")
		b.expectSound("the confirmation")
		b.press("Block the key", kb.Enter, "The key is blocked.")
		b.expectSound("the blocked key")
		b.press("Lift the block", kb.Enter, "Lift the block of this key?")
		b.press("Cancel", kb.Enter, "Every check is denied.")
		b.press("Lift the block", kb.Enter, "Lift the block of this key?")
		b.press("Lift the block", kb.Enter, "The block is lifted.")
		b.press("Reset", kb.Enter, "Reset this key?")
		b.press("Reset the key", kb.Enter, "The key is reset.")
		b.g.Expect(b.text()).To(ContainSubstring("0 of 60 used"))
		s.check(t, "shop/search", 35, "192.0.2.88")
	}
}

func TestTryByKeyboard(t *testing.T) {
	s := startSite(t)
	b := s.open(t, browser.Start(t), reader)
	for _, view := range views {
		b.show(view.width, view.scheme)
		b.visit("/console/try")
		b.tabTo("url")
		b.run(chromedp.KeyEvent("https://shop.example/login"))
		b.tabTo("headers")
		b.run(chromedp.KeyEvent("X-Account: carol@shop.example"))
		b.tabTo("remoteAddress")
		b.run(chromedp.KeyEvent("192.0.2.44"))
		b.press("Explain", kb.Enter, "Near misses")
		b.g.Expect(b.text()).To(And(ContainSubstring("No policy applies"), ContainSubstring("another value of methods")))
		b.expectSound("a near miss")
		b.tabTo("method")
		b.run(chromedp.KeyEvent("POST"))
		b.press("Explain", kb.Enter, "carol@shop.example")
		b.expectSound("an explanation")
		b.tabTo("url")
		b.run(chromedp.KeyEvent("nonsense"))
		b.press("Explain", kb.Enter, "must be a URL")
		b.expectSound("an invalid form")
	}
}

// TestScreenshots takes the screenshots of docs/console.md, if -screenshots is given.
func TestScreenshots(t *testing.T) {
	s := startSite(t)
	b := s.open(t, browser.Start(t), operator)
	folder := *screenshots
	if folder == "" {
		folder = t.TempDir()
	}
	pages, images := s.pages(), map[string][]byte{}
	for _, shot := range []struct {
		name, path, scheme string
		width              int64
	}{
		{"overview", pages["overview"], "light", 1100},
		{"overview-dark", pages["overview"], "dark", 1100},
		{"policy", pages["policy"], "light", 1100},
		{"key", pages["key"], "light", 1100},
		{"narrow", pages["policy"], "dark", 360},
	} {
		b.show(shot.width, shot.scheme)
		b.visit(shot.path)
		images[shot.name] = b.shoot(folder, shot.name)
	}
	g := NewWithT(t)
	g.Expect(brightness(g, images["overview"])).To(BeNumerically(">", 2*brightness(g, images["overview-dark"])), "the dark scheme is dark")
	g.Expect(sizeOf(g, images["policy"]).X).To(Equal(1100))
	g.Expect(sizeOf(g, images["narrow"]).X).To(Equal(360))
	b.run(chromedp.EmulateViewport(1100, 900))
	b.visit(pages["try"])
	b.tabTo("url")
	b.run(chromedp.KeyEvent("https://shop.example/login"))
	b.tabTo("remoteAddress")
	b.run(chromedp.KeyEvent("192.0.2.44"))
	b.press("Explain", kb.Enter, "Near misses")
	b.g.Expect(b.shoot(folder, "try")).NotTo(Equal(images["policy"]))
}

// brightness returns the mean of the red, 0..255, of the pixels.
func brightness(g *WithT, encoded []byte) (mean float64) {
	picture, err := png.Decode(bytes.NewReader(encoded))
	g.Expect(err).NotTo(HaveOccurred())
	area := picture.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			red, _, _, _ := picture.At(x, y).RGBA()
			mean += float64(red>>8) / float64(area.Dx()*area.Dy())
		}
	}
	return mean
}

func sizeOf(g *WithT, encoded []byte) image.Point {
	config, err := png.DecodeConfig(bytes.NewReader(encoded))
	g.Expect(err).NotTo(HaveOccurred())
	return image.Pt(config.Width, config.Height)
}

// shoot saves the window and returns the image. Documents need small files.
func (b *tab) shoot(folder, name string) []byte {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.g.Expect(err).NotTo(HaveOccurred())
	b.g.Expect(len(picture)).To(And(BeNumerically(">", 10_000), BeNumerically("<", 150_000)), name)
	b.g.Expect(os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600)).To(Succeed())
	return picture
}
