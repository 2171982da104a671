// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/conform/system"
)

// costs asks for several units at once. A request is admitted with all of its units or denied, and a denied one
// leaves the room for smaller ones.
func costs(ctx context.Context, r *run) error {
	const quota = 100
	if err := r.start(ctx, system.Options{Limits: []system.Limit{{Keys: []string{"account"}, Units: quota, Window: day}}, Instances: 2}); err != nil {
		return err
	}
	for account, units := range map[string][]uint32{
		"in turn":       {30, 30, 30, 30, 10, 1},
		"too large":     {quota + 1, quota, 1},
		"the largest":   {math.MaxUint32, 1, math.MaxUint32, quota - 1, 1},
		"just the rest": {quota - 1, 2, 1, 1},
	} {
		for i, n := range units {
			if _, err := r.ask(ctx, i%2, system.Of("account", account, n)); err != nil {
				return err
			}
		}
	}
	err := parallel(50, func(caller int) error {
		_, err := r.ask(ctx, caller%2, system.Of("account", "in parallel", 7))
		return err
	})
	if err != nil {
		return err
	}
	for range 3 { // 14 times 7 leave 2
		if _, err := r.ask(ctx, 0, system.Of("account", "in parallel", 1)); err != nil {
			return err
		}
	}
	return nil
}

// several asks two limits in one request until the smaller one is used up, and then the larger one alone: requests that
// the smaller one denied must have left its room.
func several(ctx context.Context, r *run) error {
	if err := r.start(ctx, system.Options{Instances: 2, Limits: []system.Limit{
		{Keys: []string{"account"}, Units: 100, Window: day}, {Keys: []string{"address"}, Units: 40, Window: day},
	}}); err != nil {
		return err
	}
	for _, order := range [][2]string{{"account", "address"}, {"address", "account"}} {
		value := "first " + order[0]
		both := system.Request{Units: 1, Descriptors: []system.Descriptor{{{Key: order[0], Value: value}}, {{Key: order[1], Value: value}}}}
		err := parallel(40, func(caller int) error {
			for range 4 {
				if _, err := r.ask(ctx, caller%2, both); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i := range 70 {
			if _, err := r.ask(ctx, i%2, system.Of("account", value, 1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys asks once for each of two keys that some encodings confuse, and then again for both. The judge knows them as
// different keys.
func keys(ctx context.Context, r *run) error {
	limits := []system.Limit{{Keys: []string{"account"}, Units: 1, Window: day}, {Keys: []string{"tenant", "user"}, Units: 1, Window: day}}
	if err := r.start(ctx, system.Options{Limits: limits, Instances: 1}); err != nil {
		return err
	}
	var confused []string
	pairs := confusions()
	for _, pair := range pairs {
		for i, one := range pair {
			answer, err := r.ask(ctx, 0, one)
			if err != nil {
				return err
			}
			if i > 0 && !answer.Admitted {
				confused = append(confused, fmt.Sprintf("%.60q", one.Descriptors[0]))
			}
		}
		for _, one := range pair {
			if _, err := r.ask(ctx, 0, one); err != nil {
				return err
			}
		}
	}
	r.figure("pairs with one counter", "%d of %d %s", len(confused), len(pairs), strings.Join(confused, " "))
	return nil
}

// confusions returns pairs of requests of different keys. Spaces around a value are none of the differences: HTTP does not
// count them as part of a value.
func confusions() (pairs [][2]system.Request) {
	account := func(value string) system.Request { return system.Of("account", value, 1) }
	user := func(tenant, user string) system.Request {
		return system.Request{Units: 1, Descriptors: []system.Descriptor{{{Key: "tenant", Value: tenant}, {Key: "user", Value: user}}}}
	}
	for _, separator := range []string{"_", ":", "|", "/", ",", ".", "-", " ", "\t", "\n", "\x00", "\x1f", "%00", "\\", "\""} {
		// Joined values are the same, and joined keys and values are the same.
		pairs = append(pairs, [2]system.Request{user("a"+separator+"b", "c"), user("a", "b"+separator+"c")})
		named := separator + "user" + separator
		pairs = append(pairs, [2]system.Request{user("a"+named+"b", "c"), user("a", "b"+named+"c")})
	}
	long := strings.Repeat("x", 10_000)
	for _, values := range [][2]string{
		{"Alice", "alice"},
		{"\u00e9clair", "e\u0301clair"},
		{"\u212a", "K"},
		{"\u0430dmin", "admin"},
		{"1", "01"},
		{"1", "1.0"},
		{"100%", "100%25"},
		{"a+b", "a b"},
		{"null", ""},
		{"zero\u200bwidth", "zerowidth"},
		{long + "a", long + "b"},
		{long, long + "x"},
		{strings.Repeat("\u00e9", 200) + "1", strings.Repeat("\u00e9", 200) + "2"},
	} {
		pairs = append(pairs, [2]system.Request{account(values[0]), account(values[1])})
	}
	return append(pairs, [2]system.Request{user("", "x"), user("x", "")}, [2]system.Request{user("x", "y"), user("y", "x")})
}

// manyKeys asks twice for each of many keys with a quota of one.
func manyKeys(ctx context.Context, r *run) error {
	const callers = 64
	o := system.Options{Limits: []system.Limit{{Keys: []string{"account"}, Units: 1, Window: day}}, Instances: 1, Keys: r.settings.Keys}
	if err := r.start(ctx, o); err != nil {
		return err
	}
	begin := time.Now()
	for range 2 {
		err := parallel(callers, func(caller int) error {
			for i := caller; i < r.settings.Keys; i += callers {
				if _, err := r.ask(ctx, 0, system.Of("account", fmt.Sprintf("account-%d", i), 1)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	took := time.Since(begin)
	r.figure("keys", "%d", r.settings.Keys)
	r.figure("decisions a second", "%.0f", float64(2*r.settings.Keys)/took.Seconds())
	memory, err := r.cluster.Instance(0).ResidentBytes()
	if err != nil {
		return err
	}
	r.figure("memory of the instance", "%d MiB", memory>>20)
	return nil
}
