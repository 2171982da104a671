// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

func TestEncodeKey(t *testing.T) {
	long := strings.Repeat("x", store.MaxValueBytes+1)
	for name, tc := range map[string]struct {
		parts []string
		want  store.Key
	}{
		"shared budget":           {nil, "-"},
		"one missing part":        {[]string{""}, "-"},
		"missing among others":    {[]string{"a", "", "b"}, "a|-|b"},
		"plain":                   {[]string{"user-42"}, "user-42"},
		"a value like missing":    {[]string{"-"}, "%2D"},
		"separators":              {[]string{"a|b", "c:d"}, "a%7Cb|c%3Ad"},
		"braces":                  {[]string{"}{"}, "%7D%7B"},
		"the escape itself":       {[]string{"%7D"}, "%257D"},
		"control characters":      {[]string{"a\nb\x00\u0085"}, "a%0Ab%00%C2%85"},
		"not UTF-8":               {[]string{"a\xff"}, "a%FF"},
		"the replacement rune":    {[]string{"\uFFFD"}, "\uFFFD"},
		"letters beyond ASCII":    {[]string{"Zoë"}, "Zoë"},
		"as long as allowed":      {[]string{long[1:]}, store.Key(long[1:])},
		"longer is hashed":        {[]string{long}, "#85e62acd750c4eb56b7b6a1d66dca5bf"},
		"a value like a hash":     {[]string{"#85e62acd750c4eb56b7b6a1d66dca5bf"}, "%2385e62acd750c4eb56b7b6a1d66dca5bf"},
		"long and short together": {[]string{"u", long}, "u|#85e62acd750c4eb56b7b6a1d66dca5bf"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(store.EncodeKey(tc.parts...)).To(Equal(tc.want))
		})
	}
}

func TestStateKeys(t *testing.T) {
	g := NewWithT(t)
	backend := NewStore(Options{Prefix: "weir:"})
	p := store.NewPolicy("shop/login", false, false, []store.Limit{
		{Name: "burst", Algorithm: store.SlidingLog, Quota: 5, Threshold: 5, Window: time.Minute, Block: time.Hour},
		{Name: "daily", Algorithm: store.SlidingLog, Quota: 9, Threshold: 9, Window: 24 * time.Hour},
		{Name: "rate", Algorithm: store.FixedWindow, Quota: 9, Threshold: 9, Window: 90 * time.Second},
		{Name: "tick", Algorithm: store.FixedWindow, Quota: 9, Threshold: 9, Window: 1500 * time.Millisecond},
		{Name: "even", Algorithm: store.SlidingWindow, Quota: 9, Threshold: 9, Window: time.Second, Bucket: 16666 * time.Microsecond},
		{Name: "refill", Algorithm: store.TokenBucket, Quota: 9, Threshold: 9, Window: time.Minute},
		{Name: "spaced", Algorithm: store.GCRA, Quota: 9, Threshold: 9, Window: time.Minute},
		{Name: "shed", Algorithm: store.Suppressed, Quota: 9, Threshold: 9, Window: time.Minute, Bucket: time.Second},
	})
	names := backend.keyNames(pendingOf(t, &store.Call{Entries: []store.Entry{{Policy: p, Key: store.EncodeKey("alice"), Cost: 1}}}))
	g.Expect(names).To(Equal([]string{
		"weir:1:c:{alice}:shop/login:block",
		"weir:1:c:{alice}:shop/login:sl",
		"weir:1:c:{alice}:shop/login:rate:fw:90s",
		"weir:1:c:{alice}:shop/login:tick:fw:1500ms",
		"weir:1:c:{alice}:shop/login:even:sw:1s:16666us",
		"weir:1:c:{alice}:shop/login:refill:tb:1m",
		"weir:1:c:{alice}:shop/login:spaced:gc:1m",
		"weir:1:c:{alice}:shop/login:shed:su:1m:1s",
	}))
}

// Two lists of parts have the same encoding only if they are the same list, where no parts
// and one missing part are the same.
func FuzzEncodeKeyIsInjective(f *testing.F) {
	f.Add("a|b", "", "a", "b", true)
	f.Add("-", "", "", "", false)
	f.Add("%2D", "x", "-", "x", true)
	f.Add("a\xff", "{}", "a%FF", "{}", true)
	f.Add("\uFFFD", "é", "\xff", "é", true)
	f.Add(strings.Repeat("x", 256), "", "#85e62acd750c4eb56b7b6a1d66dca5bf", "", true)
	f.Fuzz(func(t *testing.T, a1, a2, b1, b2 string, two bool) {
		a, b := []string{a1}, []string{b1}
		if two {
			a, b = append(a, a2), append(b, b2)
		}
		same := slices.Equal(a, b)
		if got := store.EncodeKey(a...) == store.EncodeKey(b...); got != same {
			t.Errorf("%q and %q: encode alike is %v, are the same is %v", a, b, got, same)
		}
		if one := store.EncodeKey(a1); two && one == store.EncodeKey(b...) {
			t.Errorf("%q and %q encode alike: %q", a1, b, one)
		}
		for _, tag := range []store.Key{store.EncodeKey(a...), store.EncodeKey(b...)} {
			if tag == "" || strings.ContainsAny(string(tag), "{} :") {
				t.Errorf("tag %q is empty or holds a brace, a colon or a space", tag)
			}
		}
	})
}
