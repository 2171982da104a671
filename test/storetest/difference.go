// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// DifferenceOf returns the parts of two replies that differ, or "". Replies are long.
func DifferenceOf(got, want any) string {
	if reflect.DeepEqual(got, want) {
		return ""
	}
	var b strings.Builder
	one, other := partsOf(got), partsOf(want)
	for i := range max(len(one), len(other)) {
		if x, y := partAt(one, i), partAt(other, i); x != y {
			fmt.Fprintf(&b, "\ngot  %s\nwant %s", x, y)
		}
	}
	return b.String()
}

func partAt(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return "nothing"
}

// partsOf returns one line for each entry and each limit of a reply.
func partsOf(v any) (parts []string) {
	reply, ok := v.(*store.Reply)
	if !ok {
		return []string{fmt.Sprintf("%+v", v)}
	}
	for i, e := range reply.Entries {
		limits := e.Limits
		e.Limits = nil
		parts = append(parts, fmt.Sprintf("entry %d: %+v", i, e))
		for j, l := range limits {
			parts = append(parts, fmt.Sprintf("entry %d, limit %d: %+v", i, j, l))
		}
	}
	return append(parts, fmt.Sprintf("from cache %v", reply.FromCache))
}
