// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Bounds of an automaton and of the work to build one. Patterns beyond them use package regexp.
const (
	maxTransitions = 4096
	maxIntervals   = 2048
	maxVisits      = 100_000
)

// automaton matches a pattern in time that depends only on the length of the text.
//
//   - It reports the same as regexp.MatchString.
//   - It has no states for word boundaries and boundaries of lines.
type automaton struct {
	classes     int
	ofASCII     [utf8.RuneSelf]uint8
	ofError     uint8    // class of utf8.RuneError, which stands for each byte that is not UTF-8
	starts      []rune   // the first rune of each interval, in order
	ofInterval  []uint8  // class of the runes of an interval
	transitions []uint16 // by state times classes plus class
	atEnd       []bool   // by state: a text that ends here matches
}

// The state of a text that matches, whatever follows. The automaton starts in the next one.
const matched, initial = 0, 1

func (a *automaton) match(text string) bool {
	state := initial
	for _, r := range text {
		if state == matched {
			return true
		}
		state = int(a.transitions[state*a.classes+a.classOf(r)])
	}
	return a.atEnd[state]
}

func (a *automaton) classOf(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return int(a.ofASCII[r])
	case r == utf8.RuneError:
		return int(a.ofError)
	}
	return int(a.ofInterval[a.interval(r)])
}

func (a *automaton) interval(r rune) int {
	i, isStart := slices.BinarySearch(a.starts, r)
	if isStart {
		return i
	}
	return i - 1
}

// newAutomaton returns the automaton of the program, or nil if it would be too large.
func newAutomaton(program *syntax.Prog) *automaton {
	b := &automatonBuilder{program: program, states: map[string]uint16{}, seen: make([]int, len(program.Inst))}
	if !b.classify() {
		return nil
	}
	b.begin()
	for state := initial; state < len(b.sets); state++ {
		for class := range b.classes {
			b.transitions = append(b.transitions, b.add(b.step(b.sets[state], b.representatives[class])))
			if b.visits > maxVisits || len(b.sets)*b.classes > maxTransitions {
				return nil
			}
		}
	}
	a := b.automaton // a pointer into the builder would keep all of it in memory
	a.starts, a.ofInterval = slices.Clip(slices.Clone(a.starts)), slices.Clip(slices.Clone(a.ofInterval))
	a.transitions, a.atEnd = slices.Clip(slices.Clone(a.transitions)), slices.Clip(slices.Clone(a.atEnd))
	return &a
}

// begin adds the states matched and initial. No later state is the same as the initial one,
// since only there the text begins.
func (b *automatonBuilder) begin() {
	start := []uint32{uint32(b.program.Start)} //nolint:gosec // An index of an instruction.
	set, always := b.closure(start, syntax.EmptyBeginText)
	_, empty := b.closure(start, syntax.EmptyBeginText|syntax.EmptyEndText)
	b.sets, b.atEnd = [][]uint32{nil, set}, []bool{true, empty}
	b.transitions = make([]uint16, b.classes)
	b.always = always
}

// automatonBuilder builds the states of an automaton as sets of instructions.
type automatonBuilder struct {
	automaton

	program         *syntax.Prog
	representatives []rune // a rune of each class
	states          map[string]uint16
	sets            [][]uint32 // by state: instructions that wait for a rune or the end
	seen            []int      // by instruction: the closure that visited it last
	closures        int
	visits          int
	always          bool // every text matches
}

// classify puts runes that all instructions treat alike into one class. It reports whether
// an automaton is possible.
func (b *automatonBuilder) classify() bool {
	b.starts = []rune{0}
	for i := range b.program.Inst {
		inst := &b.program.Inst[i]
		if inst.Op == syntax.InstEmptyWidth && conditionOf(inst)&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
			return false
		}
		b.starts = append(b.starts, boundariesOf(inst)...)
		if len(b.starts) > maxVisits {
			return false
		}
	}
	slices.Sort(b.starts)
	b.starts = slices.Compact(b.starts)
	if len(b.starts) > maxIntervals || len(b.starts)*len(b.program.Inst) > maxVisits {
		return false
	}
	return b.group()
}

// group numbers the classes. It reports false for too many.
func (b *automatonBuilder) group() bool {
	classes := map[string]uint8{}
	for _, r := range b.starts {
		signature := b.signature(r)
		class, known := classes[signature]
		if !known {
			if len(classes) > 255 {
				return false
			}
			class = uint8(len(classes)) //nolint:gosec // At most 255.
			classes[signature] = class
			b.representatives = append(b.representatives, r)
		}
		b.ofInterval = append(b.ofInterval, class)
	}
	for r := range b.ofASCII {
		b.ofASCII[r] = b.ofInterval[b.interval(rune(r))]
	}
	b.ofError = b.ofInterval[b.interval(utf8.RuneError)]
	b.classes = len(classes)
	return true
}

// conditionOf returns the condition of an instruction without a rune.
func conditionOf(inst *syntax.Inst) syntax.EmptyOp {
	return syntax.EmptyOp(inst.Arg) //nolint:gosec // It holds one.
}

// boundariesOf returns the runes at which the instruction starts or stops to match.
func boundariesOf(inst *syntax.Inst) (starts []rune) {
	switch inst.Op {
	case syntax.InstRune1, syntax.InstRune:
		if len(inst.Rune) != 1 {
			for i := 0; i+1 < len(inst.Rune); i += 2 {
				starts = append(starts, inst.Rune[i], inst.Rune[i+1]+1)
			}
			return starts
		}
		first := inst.Rune[0]
		starts = append(starts, first, first+1)
		if syntax.Flags(inst.Arg)&syntax.FoldCase != 0 { //nolint:gosec // It holds flags.
			for r := unicode.SimpleFold(first); r != first; r = unicode.SimpleFold(r) {
				starts = append(starts, r, r+1)
			}
		}
	case syntax.InstRuneAnyNotNL:
		starts = append(starts, '\n', '\n'+1)
	default: // matches no rune, or every one
	}
	return starts
}

// signature identifies the set of instructions that match the rune.
func (b *automatonBuilder) signature(r rune) string {
	bits := make([]byte, (len(b.program.Inst)+7)/8)
	for i := range b.program.Inst {
		if matchesRune(&b.program.Inst[i], r) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return string(bits)
}

func matchesRune(inst *syntax.Inst, r rune) bool {
	switch inst.Op {
	case syntax.InstRune, syntax.InstRune1:
		return inst.MatchRune(r)
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	default:
		return false
	}
}

// step returns the set after a rune. A match may also start after it.
func (b *automatonBuilder) step(set []uint32, r rune) (next []uint32, match bool) {
	if b.always {
		return nil, true
	}
	from := []uint32{uint32(b.program.Start)} //nolint:gosec // An index of an instruction.
	for _, pc := range set {
		if inst := &b.program.Inst[pc]; matchesRune(inst, r) {
			from = append(from, inst.Out)
		}
	}
	b.visits += len(set)
	return b.closure(from, 0)
}

// closure returns the instructions that are reached without a rune where the conditions
// hold, and whether the match is complete.
func (b *automatonBuilder) closure(from []uint32, holds syntax.EmptyOp) (set []uint32, match bool) {
	b.closures++
	stack := slices.Clone(from)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if b.seen[pc] == b.closures {
			continue
		}
		b.seen[pc] = b.closures
		b.visits++
		switch inst := &b.program.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return nil, true
		case syntax.InstFail:
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, inst.Out)
		case syntax.InstEmptyWidth:
			switch missing := conditionOf(inst) &^ holds; {
			case missing == 0:
				stack = append(stack, inst.Out)
			case missing&^syntax.EmptyEndText == 0:
				set = append(set, pc) // continues at the end of the text
			}
		default:
			set = append(set, pc)
		}
	}
	return set, false
}

// add returns the state of the set.
func (b *automatonBuilder) add(set []uint32, match bool) uint16 {
	if match {
		return matched
	}
	slices.Sort(set)
	name := make([]byte, 0, 4*len(set))
	for _, pc := range set {
		name = binary.LittleEndian.AppendUint32(name, pc)
	}
	if state, known := b.states[string(name)]; known {
		return state
	}
	state := uint16(len(b.sets)) //nolint:gosec // At most maxTransitions.
	b.states[string(name)] = state
	b.sets = append(b.sets, set)
	_, ends := b.closure(set, syntax.EmptyEndText)
	b.atEnd = append(b.atEnd, ends)
	return state
}
