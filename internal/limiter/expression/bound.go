// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/types"
)

// What an evaluation reads of descriptors at most: entries, and bytes of their keys.
const (
	MaxScannedEntries  = 2048
	MaxScannedKeyBytes = 64 << 10
)

// The bounds of the most expensive request. Reading more is an error.
const (
	maxText     = 8 << 10 // bytes of a value
	maxName     = 256     // bytes of a header name or a descriptor key in an iteration
	maxNumber   = 64      // bytes of a text that is converted to a number or time
	maxPayloads = 4       // with claims, in an iteration
	maxEntries  = 128     // of a map that is iterated, and repeated headers
	maxParts    = 512     // of a split without a smaller limit
	maxScanned  = MaxScannedEntries
	maxKeyBytes = MaxScannedKeyBytes
)

// maxScalarText bounds the text of any number or time.
const maxScalarText = 512

// bound is an upper bound of the sizes of a value, whatever its type. It is never changed. The
// sizes are floats, which do not overflow.
type bound struct {
	text    float64 // bytes of the text
	length  float64 // elements of the list, or entries of the map
	joints  float64 // lists that the list was concatenated from
	element *bound  // largest element or value; nil for numbers and the like
	key     *bound  // largest key of the map
	isList  bool    // the value may be a list
	reads   source  // maps that the value may be
}

// source is a set of maps.
type source uint8

const (
	readsHeaders source = 1 << iota
	readsDescriptor
	readsQuery
	readsCookies
	readsClaims // of one payload
	readsOther  // maps that the expression builds
)

var (
	scalar  = &bound{}
	textual = &bound{text: maxText}
	named   = &bound{text: maxName}
)

// isMap reports whether the value may be a map.
func (b *bound) isMap() bool { return b.key != nil }

// of returns the bound of elements and values.
func (b *bound) of() *bound {
	if b.element == nil {
		return scalar
	}
	return b.element
}

// keys returns the bound of keys.
func (b *bound) keys() *bound {
	if b.key == nil {
		return scalar
	}
	return b.key
}

// iterated returns the bound of what an iteration yields.
func (b *bound) iterated() *bound {
	switch {
	case !b.isMap():
		return b.of()
	case b.isList:
		return union(b.of(), b.keys())
	}
	return b.keys()
}

// values returns the number of all values within the value.
func (b *bound) values() float64 {
	if b.length == 0 {
		return 1
	}
	return 1 + b.length*(b.of().values()+b.keys().values())
}

// bytes returns the bytes of all texts within the value.
func (b *bound) bytes() float64 {
	if b.length == 0 {
		return b.text
	}
	return b.text + b.length*(b.of().bytes()+b.keys().bytes())
}

// union returns the bound of a value that is within one of both bounds.
func union(a, b *bound) *bound {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	return &bound{
		text: max(a.text, b.text), length: max(a.length, b.length), joints: max(a.joints, b.joints),
		element: union(a.element, b.element), key: union(a.key, b.key), isList: a.isList || b.isList, reads: a.reads | b.reads,
	}
}

// concatenated returns the bound of the sum of two texts, lists or numbers.
func concatenated(a, b *bound) *bound {
	sum := union(a, b)
	return &bound{
		text: a.text + b.text, length: a.length + b.length, joints: a.joints + b.joints + 1,
		element: sum.element, key: sum.key, isList: sum.isList, reads: sum.reads,
	}
}

func listOf(length float64, element *bound) *bound {
	return &bound{length: length, element: element, isList: true}
}

// boundOfLiteral returns the size of a literal.
func boundOfLiteral(literal any) *bound {
	switch value := literal.(type) {
	case types.String:
		return &bound{text: float64(len(value))}
	case types.Bytes:
		return &bound{text: float64(len(value))}
	}
	return scalar
}
