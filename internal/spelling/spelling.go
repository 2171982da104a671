// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the name that was probably meant.
package spelling

import "strings"

// Closest returns the candidate that the word was probably meant to be, or "" if none is
// close: at most a third of its letters differ.
func Closest(word string, candidates []string) string {
	best, fewest := "", max(1, len(word)/3)+1
	for _, candidate := range candidates {
		if n := distance(strings.ToLower(word), strings.ToLower(candidate)); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best
}

// distance returns how many bytes must be inserted, removed or replaced to make a of b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
