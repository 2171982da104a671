// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestStateAsTable(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"blocked by a limit": {
			`{"policy":"shop/login","blocked":true,"blockedBy":"burst","blockLeftMs":599994,"limits":[
			{"limit":"burst","allowed":false,"used":5,"threshold":5,"remaining":0,"retryAfterMs":599994,"resetAfterMs":59000},
			{"limit":"a-day","allowed":true,"used":5,"threshold":1000,"remaining":995,"retryAfterMs":0,"resetAfterMs":86400000}]}`,
			`Policy:    shop/login
Blocked:   for 10m, by limit burst

LIMIT   USED   THRESHOLD   REMAINING   RETRY AFTER   RESET AFTER
burst   5      5           0           10m           59s
a-day   5      1000        995         -             24h
`,
		},
		"blocked by an operator": {
			`{"policy":"shop/login","blocked":true,"blockLeftMs":1500,"limits":[]}`,
			`Policy:    shop/login
Blocked:   for 1.5s, by an operator

LIMIT   USED   THRESHOLD   REMAINING   RETRY AFTER   RESET AFTER
`,
		},
		"an override": {
			`{"policy":"shop/login","override":"gold","action":"Limit","blocked":false,"limits":[
			{"limit":"burst","allowed":false,"used":0,"threshold":1,"remaining":0,"resetAfterMs":0}]}`,
			`Policy:     shop/login
Override:   gold (Limit)
Blocked:    no

LIMIT   USED   THRESHOLD   REMAINING   RETRY AFTER   RESET AFTER
burst   0      1           0           never         0s
`,
		},
		"open reservations": {
			`{"policy":"shop/tokens","blocked":false,"limits":[
			{"limit":"hourly","allowed":true,"used":67,"held":60,"threshold":100,"remaining":33,"retryAfterMs":0,"resetAfterMs":1000}],
			"openReservations":3,"reservations":[{"id":"r-1","units":50,"endsInMs":60000},{"id":"4f0c","units":10,"endsInMs":90000}]}`,
			`Policy:    shop/tokens
Blocked:   no

LIMIT    USED   THRESHOLD   REMAINING   RETRY AFTER   RESET AFTER
hourly   67     100         33          -             1s

RESERVATION   HELD   ENDS IN
r-1           50     1m
4f0c          10     1m30s
1 more               
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var state KeyState
			g.Expect(json.Unmarshal([]byte(tc.body), &state)).To(Succeed())
			var out bytes.Buffer
			g.Expect(state.write(&out)).To(Succeed())
			g.Expect(out.String()).To(Equal(tc.want))
		})
	}
}

func TestTimesAreShort(t *testing.T) {
	g := NewWithT(t)
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Millisecond: "90ms", 30 * time.Second: "30s", time.Minute: "1m", 10 * time.Minute: "10m",
		time.Hour: "1h", 20 * time.Hour: "20h", 90*time.Minute + 400*time.Millisecond: "1h30m", time.Hour + time.Second: "1h0m1s",
	} {
		g.Expect(Short(d)).To(Equal(want))
	}
}
