// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"testing"

	. "github.com/onsi/gomega"
)

// A log of any content is read to its end: each line is an entry with a valid time, or unreadable.
func FuzzLines(f *testing.F) {
	f.Add(`192.0.2.7 - ann [01/Nov/2026:13:00:00 +0100] "POST /login?x=1 HTTP/1.1" 429 12 "-" "a \"quoted\" \x22agent"`)
	f.Add(`[2026-11-01T12:00:00.125Z] "POST / HTTP/1.1" 429 - 0 1 2 3 "10.0.0.1,192.0.2.7" "agent" "id" "shop.example" "10.1.1.1:80"`)
	f.Add(`{"time":1793534400000,"request":{"method":["GET"],"uri":null},"remote_addr":"[::1]:80","a":{}}`)
	f.Add("{\"ts\": 1.5}\n{\"ts\": 0.5}")
	f.Add("\"\\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range Formats {
			source := sourceOf(format, text, nil)
			source.Host = "shop.example"
			lines, err := source.scan(needing(`request.method + request.path == "" && remoteAddress == ""`))
			if err != nil {
				continue // has no such fields
			}
			sorted, last := &order{most: 3}, int64(0)
			sorted.emit = func(e *entry) error {
				NewWithT(t).Expect(e.micros).To(BeNumerically(">=", last))
				last = e.micros
				return nil
			}
			var e entry
			for lines.next(&e) == nil {
				NewWithT(t).Expect(sorted.add(&e)).To(Succeed())
			}
			NewWithT(t).Expect(sorted.finish()).To(Succeed())
			NewWithT(t).Expect(sorted.held).To(BeZero())
		}
	})
}
