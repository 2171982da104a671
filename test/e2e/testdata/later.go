// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// This file is added to package plan in the image of a later release: see laterRelease. That release writes a value that the
// tested one does not know, as if the value had a new meaning, and reads both.

const countLater = "AttemptsLater"

// MarshalText implements encoding.TextMarshaler.
func (c Counting) MarshalText() ([]byte, error) {
	if c == CountAttempts {
		return []byte(countLater), nil
	}
	return []byte(c), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Counting) UnmarshalText(text []byte) error {
	*c = Counting(text)
	if *c == countLater {
		*c = CountAttempts
	}
	return nil
}
