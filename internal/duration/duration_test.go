// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package duration_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/internal/duration"
)

func TestParse(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]time.Duration{
		"0": 0, "500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute, "-1s": -time.Second,
		"1d": 24 * time.Hour, "7d": 168 * time.Hour, "2w": 336 * time.Hour, "1w2d3h": 219 * time.Hour, "1.5d": 36 * time.Hour, "-1d": -24 * time.Hour,
	} {
		g.Expect(duration.Parse(text)).To(Equal(want), text)
	}
	for _, text := range []string{"", "7", "d", "1y", "1 d", "7days", "1d1", "200000000w"} {
		_, err := duration.Parse(text)
		g.Expect(err).To(MatchError(duration.Form), text)
	}
}

func TestInHours(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{"7d": "168h", "1w12h": "168h12h", "0.5d": "12h", "30m": "30m", "soon": "soon"} {
		g.Expect(duration.InHours(text)).To(Equal(want), text)
	}
}

func TestHint(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		"1.5h": "1h30m", "7d": "168h", "1d12h": "36h", "0.1d": "2h24m", "1.5s": "1s500ms", ".5m": "30s", "90.25m": "1h30m15s",
	} {
		g.Expect(duration.Hint(text)).To(Equal(text + ": write " + want))
	}
	for _, text := range []string{"1h", "168h", "7days", "1.5ms", "", "soon", "-1.5h", "0.0h", "1.5x"} {
		g.Expect(duration.Hint(text)).To(BeEmpty(), text)
	}
}

func TestVar(t *testing.T) {
	g := NewWithT(t)
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	var keep, wait time.Duration
	duration.Var(flags, &keep, "keep", time.Hour, "how long to keep it")
	duration.Var(flags, &wait, "wait", 0, "how long to wait")
	g.Expect(keep).To(Equal(time.Hour))
	g.Expect(flags.FlagUsages()).To(And(
		MatchRegexp(`--keep duration +how long to keep it \(default 1h0m0s\)`),
		MatchRegexp(`--wait duration +how long to wait\n`)))

	g.Expect(flags.Parse([]string{"--keep", "7d", "--wait=1w"})).To(Succeed())
	g.Expect([]time.Duration{keep, wait}).To(Equal([]time.Duration{168 * time.Hour, 168 * time.Hour}))
	g.Expect(flags.Parse([]string{"--keep", "soon"})).To(MatchError(ContainSubstring(duration.Form)))
	g.Expect(keep).To(Equal(168*time.Hour), "an invalid value changes nothing")
}
