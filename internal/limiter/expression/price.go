// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MaxPrice is the largest price of an expression, and of all expressions of one policy.
const MaxPrice = time.Millisecond

// priced is the price of an expression.
type priced struct {
	nanoseconds float64             // that it takes at most, for any request
	scans       float64             // of these, for the entries of descriptors
	patterns    map[string]*pattern // that it matches, by text
}

// priceOf prices the expression. forKey is true for a part of a key.
func priceOf(checked *ast.AST, forKey bool) (priced, error) {
	p := &pricer{checked: checked, forKey: forKey, times: 1, patterns: map[string]*pattern{}}
	p.spend(costOfEvaluation)
	p.value(checked.Expr())
	p.spendOnMaps()
	return priced{nanoseconds: p.spent, scans: p.scans, patterns: p.patterns}, p.err
}

// pricer adds up the price of an expression. Each part counts as often as it is evaluated.
type pricer struct {
	checked *ast.AST
	forKey  bool

	spent float64 // nanoseconds
	scans float64 // of these, for the entries of descriptors
	err   error   // the first
	times float64 // how often the part is evaluated
	loops []loop  // around the part

	patterns map[string]*pattern

	descriptorReads float64 // by key
	wholeDescriptor bool    // iterated, counted or compared
	whole           source  // maps that are used in this way
	used            source  // maps that are used in any way
}

// loop is a comprehension, whose variables hide variables of the outer ones.
type loop struct {
	variable, accumulator string
	element, accumulated  *bound
}

func (p *pricer) spend(nanoseconds float64) {
	if nanoseconds > 0 { // else 0 times infinity
		p.spent += p.times * nanoseconds
	}
}

func (p *pricer) fail(format string, arguments ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, arguments...)
	}
}

// value prices the part and returns the bound of its value.
func (p *pricer) value(e ast.Expr) *bound {
	b := p.container(e)
	p.notByKey(b)
	return b
}

// container is value for a map or list that is read by key or index.
func (p *pricer) container(e ast.Expr) *bound {
	switch e.Kind() {
	case ast.LiteralKind:
		p.spend(costOfConstant)
		return boundOfLiteral(e.AsLiteral())
	case ast.IdentKind:
		return p.identifier(e)
	case ast.SelectKind:
		return p.member(e)
	case ast.ListKind:
		return p.list(e)
	case ast.MapKind:
		return p.mapping(e)
	case ast.ComprehensionKind:
		return p.comprehension(e.AsComprehension())
	case ast.CallKind:
		return p.call(e)
	default:
		p.fail("messages are not available")
		return scalar
	}
}

// notByKey records a use of the value other than reading a key of it.
func (p *pricer) notByKey(b *bound) {
	p.wholeDescriptor = p.wholeDescriptor || b.reads&readsDescriptor != 0
	p.whole |= b.reads
}

func (p *pricer) identifier(e ast.Expr) *bound {
	p.spend(costOfVariable + costOfScope*float64(len(p.loops)))
	name := e.AsIdent()
	if global, isGlobal := strings.CutPrefix(name, "."); isGlobal {
		return p.global(e, global)
	}
	for _, l := range slices.Backward(p.loops) {
		switch name {
		case l.accumulator:
			return l.accumulated
		case l.variable:
			return l.element
		}
	}
	return p.global(e, name)
}

// mapSources are the variables that are maps of texts.
var mapSources = map[string]source{headers: readsHeaders, query: readsQuery, cookies: readsCookies, descriptor: readsDescriptor}

func mapOfTexts(reads source) *bound {
	return &bound{length: maxEntries, element: textual, key: named, reads: reads}
}

func (p *pricer) global(e ast.Expr, name string) *bound {
	switch {
	case mapSources[name] != 0:
		p.used |= mapSources[name]
		return mapOfTexts(mapSources[name])
	case name == claims:
		return &bound{length: maxPayloads, element: mapOfTexts(readsClaims), key: named, reads: readsClaims}
	case name == responseCode:
		return scalar
	case slices.Contains(ofRequests().variables, name):
		return textual
	case p.checked.GetType(e.ID()).Kind() == types.TypeKind:
		return scalar
	}
	p.fail("%s is not available", name)
	return scalar
}

// member prices the selection of a key that is a name.
func (p *pricer) member(e ast.Expr) *bound {
	s := e.AsSelect()
	of := p.container(s.Operand())
	return p.read(of, &bound{text: float64(len(s.FieldName()))})
}

// read prices reading a key or index.
func (p *pricer) read(of, key *bound) *bound {
	p.spend(costOfFailure + costOfRead + p.nextPrice(of))
	if of.reads&readsOther != 0 { // an error names the key
		p.spend(costOfFormatting*key.bytes() + costOfFormattedValue*key.values())
	}
	p.lookUp(of, key)
	return union(of.of(), scalar)
}

// lookUp prices finding a key in a map.
func (p *pricer) lookUp(in, key *bound) {
	p.spend(costOfLookup + costOfHashing*key.text)
	if in.reads&readsHeaders != 0 {
		p.spend(costOfFolding * key.text)
	}
	if in.reads&readsHeaders != 0 && p.forKey {
		p.spend(maxEntries * (costOfRepeatedHeader + costOfEquality*key.text))
	}
	if in.reads&readsDescriptor != 0 {
		p.descriptorReads += p.times
	}
}

// spendOnMaps prices what an evaluation does once to read the maps of the request.
func (p *pricer) spendOnMaps() {
	for _, of := range []source{readsHeaders, readsQuery, readsCookies} {
		if p.whole&of != 0 {
			p.spend(maxEntries * costOfCheckedName)
		}
	}
	if p.whole&readsClaims != 0 {
		p.spend(maxPayloads * (costOfPayload + 2*maxEntries*costOfCheckedName)) // as a whole, and each on its own
	}
	for _, of := range []source{readsQuery, readsCookies} {
		if p.used&of != 0 {
			p.spend(plan.MaxReadValues*costOfValue + plan.MaxReadBytes*costOfDecoding)
		}
	}
	before := p.spent
	const scan = maxScanned*costOfScannedEntry + maxKeyBytes*costOfEquality
	p.spend(min(p.descriptorReads, maxScans) * scan)
	if p.wholeDescriptor || p.descriptorReads > maxScans {
		p.spend(maxScanned*costOfIndexedEntry + maxKeyBytes*costOfHashing)
	}
	p.scans = p.spent - before
}

// list prices a list. The library builds a list of constants when it compiles.
func (p *pricer) list(e ast.Expr) *bound {
	elements := e.AsList().Elements()
	element := (*bound)(nil)
	times := p.times
	if isConstant(e) {
		p.times = 0
	}
	p.spend(costOfList + costOfElement*float64(len(elements)))
	for _, item := range elements {
		element = union(element, p.value(item))
	}
	p.times = times
	p.spend(costOfConstant)
	return listOf(float64(len(elements)), element)
}

// mapping prices a map.
func (p *pricer) mapping(e ast.Expr) *bound {
	entries := e.AsMap().Entries()
	b := &bound{length: float64(len(entries)), key: scalar, reads: readsOther}
	times := p.times
	if isConstant(e) {
		p.times = 0
	}
	p.spend(costOfList)
	for _, item := range entries {
		key, value := p.value(item.AsMapEntry().Key()), p.value(item.AsMapEntry().Value())
		p.spend(costOfEntry + costOfHashing*key.text)
		if key.element != nil || key.key != nil {
			p.fail("a map or list as a key is not available")
		}
		b = &bound{length: b.length, key: union(b.key, key), element: union(b.element, value), reads: b.reads}
	}
	p.times = times
	p.spend(costOfConstant)
	return b
}

// isConstant reports whether the library evaluates the part when it compiles.
func isConstant(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.ListKind:
		return len(e.AsList().OptionalIndices()) == 0 && !slices.ContainsFunc(e.AsList().Elements(), func(e ast.Expr) bool { return !isConstant(e) })
	case ast.MapKind:
		return !slices.ContainsFunc(e.AsMap().Entries(), func(e ast.EntryExpr) bool {
			return !isConstant(e.AsMapEntry().Key()) || !isConstant(e.AsMapEntry().Value())
		})
	default:
		return false
	}
}

// comprehension prices a loop of the standard macros: the accumulator is a bool, a number, or
// a list that grows by one element an iteration.
func (p *pricer) comprehension(c ast.ComprehensionExpr) *bound {
	init := c.AccuInit()
	isList := init.Kind() == ast.ListKind && len(init.AsList().Elements()) == 0
	if c.HasIterVar2() || !isList && (init.Kind() != ast.LiteralKind || boundOfLiteral(init.AsLiteral()) != scalar) {
		p.fail("a loop of this kind is not available")
		return scalar
	}
	over := p.value(c.IterRange())
	p.spend(costOfLoop)
	l := loop{variable: c.IterVar(), accumulator: c.AccuVar(), element: over.iterated(), accumulated: p.value(init)}
	p.loops = append(p.loops, l)
	times := p.times
	p.times = times * over.length
	if over.length > 0 {
		p.spend(costOfIteration + p.nextPrice(over))
		if over.isMap() {
			p.spend(costOfNextKey)
		}
		p.value(c.LoopCondition())
		step := p.value(c.LoopStep())
		l.accumulated = listOf(over.length*step.length, step.element)
	}
	p.times = times
	p.loops[len(p.loops)-1] = l
	result := p.value(c.Result())
	p.loops = p.loops[:len(p.loops)-1]
	return result
}

// nextPrice is the price of getting one element.
func (p *pricer) nextPrice(of *bound) float64 { return costOfJoint * of.joints }

// tooExpensive returns an error that names the price and the largest one.
func tooExpensive(nanoseconds float64, most time.Duration) error {
	price := time.Duration(math.MaxInt64)
	if nanoseconds < math.MaxInt64 {
		price = time.Duration(nanoseconds)
	}
	return fmt.Errorf("may take %s for the most expensive request, at most %s", FormatPrice(price), FormatPrice(most))
}

// FormatPrice returns the price with two digits, rounded up, such as "3.2 ms".
func FormatPrice(price time.Duration) string {
	if price > time.Hour {
		return "more than an hour"
	}
	digit := time.Duration(1)
	for price >= 100*digit {
		digit *= 10
	}
	text := (price + digit - 1).Truncate(digit).String()
	unit := strings.IndexFunc(text, unicode.IsLetter)
	return text[:unit] + " " + text[unit:]
}
