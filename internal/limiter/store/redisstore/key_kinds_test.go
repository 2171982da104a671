// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// named is the text that a set of Redis keys contains.
type named struct{ key, policy, limit, suffix, id string }

// keys returns keys of all kinds by what they identify. Equal states have equal descriptions.
func (n named) keys(s *Store) map[string]string {
	key, policy := store.EncodeKey(n.key), "shop/"+n.policy
	tag := string(key)
	keys := map[string]string{
		fmt.Sprintln("block", tag, policy):        s.key(key, store.BlockName(policy)),
		fmt.Sprintln("held", tag, policy):         s.key(key, store.HoldsName(policy)),
		fmt.Sprintln("set", tag, policy):          s.key(key, holdSetName(policy)),
		fmt.Sprintln("requested", tag, policy):    s.key(key, listName(policy)),
		fmt.Sprintln("charge", tag, policy, n.id): s.key(key, store.ChargeName(policy, n.id)),
		fmt.Sprintln("blocks", policy):            s.blockList(policy),
		fmt.Sprintln("probe", tag):                s.key(key, probeKey),
		fmt.Sprintln("absent", tag):               s.key(key, absentKey),
		fmt.Sprintln("escalation", tag, policy, n.limit): s.key(key,
			(&store.Limit{Name: n.limit}).EscalationName(policy)),
	}
	for _, suffix := range []string{"", n.suffix, n.suffix + "+requested60"} {
		for _, a := range allAlgorithms {
			l := store.Limit{Name: n.limit, Algorithm: a, Window: time.Hour, StateSuffix: suffix}
			if a == store.SlidingWindow || a == store.Suppressed {
				l.Bucket = time.Minute
			}
			state := fmt.Sprintln("state", a, tag, policy, n.limit, suffix)
			switch {
			case a == store.Concurrency:
				state = fmt.Sprintln("held", tag, policy)
			case a == store.SlidingLog && suffix == "":
				state = fmt.Sprintln("log", tag, policy)
			}
			keys[state] = s.key(key, l.StateName(policy))
			if a == store.SlidingLog {
				keys["largest "+state] = s.key(key, store.LargestName(l.StateName(policy)))
			}
		}
	}
	return keys
}

// expectDifferent expects that two keys are equal only if they identify the same.
func expectDifferent(t *testing.T, all ...named) {
	t.Helper()
	backend, seen := NewStore(Options{Prefix: "weir:"}), map[string]string{}
	for _, n := range all {
		for what, key := range n.keys(backend) {
			if other, found := seen[key]; found && other != what {
				t.Errorf("%q is the key of %q and of %q", key, what, other)
			}
			seen[key] = what
		}
	}
}

// Limits, overrides and IDs may be named as parts of the layout.
func TestNoTwoKindsOfKeysAreEqual(t *testing.T) {
	words := []string{
		"block", "blocked", "held", "set", "sl", "largest", "requested", "charge", "escalation", "probe", "fw", "tb", "1h", "1m", "x",
	}
	var all []named
	for _, limit := range words {
		for _, word := range words {
			for _, id := range []string{word, "fw:1h", "tb:1h:x", "!" + word, "x:" + word, word + ":fw:1h"} {
				all = append(all, named{key: "shop/" + word, policy: limit, limit: limit, suffix: word, id: id})
				all = append(all, named{key: "alice", policy: "login", limit: limit, suffix: word, id: id})
			}
		}
	}
	expectDifferent(t, all...)
}

// FuzzKeysAreInjective compares keys of all kinds with any ID and any name.
func FuzzKeysAreInjective(f *testing.F) {
	f.Add("alice", "login", "charge", "x", "fw:1h", "alice", "login", "charge", "x", "y")
	f.Add("shop/login", "charge", "block", "largest", "escalation", "-", "x", "sl", "1h", "sl:1h:x")
	f.Fuzz(func(t *testing.T, aKey, aPolicy, aLimit, aSuffix, aID, bKey, bPolicy, bLimit, bSuffix, bID string) {
		a := named{aKey, label(aPolicy), label(aLimit), label(aSuffix), aID}
		b := named{bKey, label(bPolicy), label(bLimit), label(bSuffix), bID}
		sameUser := b
		sameUser.key, sameUser.policy = a.key, a.policy
		expectDifferent(t, a, b, sameUser)
	})
}

// label returns the text without what a DNS label cannot contain.
func label(text string) string {
	return "x" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, text)
}
