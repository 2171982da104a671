// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

// chunkSize is the number of values that a slab allocates at once.
const chunkSize = 128

// slab holds values without pointers by number, so that the garbage collector has nothing to
// follow. Values never move. The number 0 is never used. Memory of removed values is reused.
type slab[T any] struct {
	chunks [][]T
	used   uint32 // numbers below it have been used
	free   []uint32
}

// at returns the value with that number.
func (s *slab[T]) at(i uint32) *T { return &s.chunks[i/chunkSize][i%chunkSize] }

// add returns the number of a new zero value.
func (s *slab[T]) add() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.used++
	if int(s.used/chunkSize) == len(s.chunks) {
		s.chunks = append(s.chunks, make([]T, chunkSize))
	}
	return s.used
}

// remove clears the value, whose number may be used again.
func (s *slab[T]) remove(i uint32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}
