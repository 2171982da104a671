// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bufio"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Series are the values of the metrics of a process, by the name with its labels.
type Series map[string]float64

// Scrape reads the metrics of the process with that metrics address.
func Scrape(tb testing.TB, address string) Series {
	tb.Helper()
	g := NewWithT(tb)
	response, err := http.Get("http://" + address + "/metrics")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	all := Series{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		g.Expect(err).NotTo(HaveOccurred(), lines.Text())
		all[lines.Text()[:at]] = value
	}
	g.Expect(lines.Err()).NotTo(HaveOccurred())
	return all
}

// Sum returns the sum of the series of the metric that have the labels, each as name="value".
func (s Series) Sum(metric string, labels ...string) (sum float64) {
	for name, value := range s {
		found, rest, _ := strings.Cut(name, "{")
		if found == metric && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			sum += value
		}
	}
	return sum
}
