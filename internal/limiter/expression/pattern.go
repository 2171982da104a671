// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/google/cel-go/common/ast"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// pattern is a compiled regular expression.
type pattern struct {
	automaton *automaton     // nil if it would be too large
	regexp    *regexp.Regexp // used without an automaton
	perByte   float64        // nanoseconds for a byte of the text
	heap      int            // bytes that the regexp takes at most; 0 for an automaton, which is bounded
}

func compilePattern(text string) (*pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if a := newAutomaton(program); a != nil {
		return &pattern{automaton: a, perByte: costOfTransition + costOfRangeStep*math.Log2(float64(len(a.starts)))}, nil
	}
	compiled, err := regexp.Compile(text)
	return &pattern{regexp: compiled, perByte: perByteOf(program), heap: heapOf(program)}, err
}

// heapOf returns the most that package regexp takes for the program, in bytes. For an anchored program it makes a table of
// the next instruction for each rune of each instruction.
func heapOf(program *syntax.Prog) (n int) {
	const instruction, runeOfTable = 128, 16
	for i := range program.Inst {
		n += instruction + runeOfTable*len(program.Inst[i].Rune)
	}
	return n
}

// checkHeap returns an error for the first pattern, in the order of their texts, that takes more than plan.MaxPatternHeap.
func checkHeap(patterns map[string]*pattern) error {
	for _, text := range slices.Sorted(maps.Keys(patterns)) {
		if heap := patterns[text].heap; heap > plan.MaxPatternHeap {
			return fmt.Errorf("pattern %q may take %d bytes of memory, at most %d are allowed", text, heap, plan.MaxPatternHeap)
		}
	}
	return nil
}

// perByteOf returns the price of a byte for package regexp. It visits each instruction at most
// once a byte.
func perByteOf(program *syntax.Prog) float64 {
	price := costOfPatternByte
	for i := range program.Inst {
		price += costOfInstruction + costOfRangeStep*math.Log2(1+float64(len(program.Inst[i].Rune)))
	}
	return price
}

func (p *pattern) match(text string) bool {
	if p.automaton != nil {
		return p.automaton.match(text)
	}
	return p.regexp.MatchString(text)
}

// matches prices a match. The pattern must be known: the time depends on it.
func matches(p *pricer, call ast.CallExpr, args []*bound) *bound {
	text, isLiteral := literalOf(call)
	if !isLiteral {
		p.fail("the pattern of matches() must be a literal: write a condition for each pattern")
		return scalar
	}
	compiled, known := p.patterns[text]
	if !known {
		var err error
		if compiled, err = compilePattern(text); err != nil {
			p.fail("pattern %q: %w", text, err)
			return scalar
		}
		p.patterns[text] = compiled
	}
	p.spend(costOfCall + costOfMatch + compiled.perByte*args[0].text)
	return scalar
}
