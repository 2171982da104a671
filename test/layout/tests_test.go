// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"go/ast"
	"go/constant"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shortestTimeout is the shortest time after which a test may fail because something has not happened: a busy machine can
// stop a process for seconds.
const shortestTimeout = 30 * time.Second

// A busy machine fails no test: tests wait for a condition for 30 s or more, and compare nothing with a shorter time
// that the machine needs. A line that must is marked "// busy: REASON"; the test then has a control in the same run, or
// the time is one of the product's promises on a clock that the test sets.
func TestNoTestTakesABusyMachineForADefect(t *testing.T) {
	fset, files := goFiles(t)
	shared := durationsByFolder(files)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !isTest(path) {
			continue
		}
		file := files[path]
		excused := map[int]bool{}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if strings.HasPrefix(comment.Text, "// busy: ") {
					excused[fset.Position(comment.Pos()).Line] = true
				}
			}
		}
		constants := maps.Clone(shared[filepath.Dir(path)])
		addDurations(constants, file)
		ast.Inspect(file, func(node ast.Node) bool {
			var at ast.Node
			var problem string
			switch n := node.(type) {
			case *ast.CallExpr:
				at, problem = impatient(n, constants)
			case *ast.CommClause:
				at, problem = impatientCase(n, constants)
			}
			if at == nil {
				return true
			}
			if position := fset.Position(at.Pos()); !excused[position.Line] {
				t.Errorf("%s:%d:%d: %s", path, position.Line, position.Column, problem)
			}
			return true
		})
	}
}

// Tests compile nothing: hack/programs.sh builds the programs that they run.
func TestNoTestCompiles(t *testing.T) {
	fset, files := goFiles(t)
	for path, file := range files {
		if !isTest(path) {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || !strings.Contains(calledName(call), "ommand") {
				return true
			}
			for i, argument := range call.Args[:max(len(call.Args)-1, 0)] {
				if text(argument) == "go" && slices.Contains([]string{"build", "run", "test", "install"}, text(call.Args[i+1])) {
					t.Errorf("%s: runs go %s", fset.Position(call.Pos()), text(call.Args[i+1]))
				}
			}
			return true
		})
	}
}

// Tests start processes by testenv.Command, so that they end with the test.
func TestProcessesEndWithTheTest(t *testing.T) {
	fset, files := goFiles(t)
	for path, file := range files {
		// The other modules cannot import testenv: hack/image and client start nothing that outlives them.
		if !isTest(path) || strings.HasPrefix(path, "test/testenv/") || strings.HasPrefix(path, "hack/image/") || strings.HasPrefix(path, "client/") {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				if name := calledName(call); name == "exec.Command" || name == "exec.CommandContext" {
					t.Errorf("%s: %s; use testenv.Command, which ends with the test", fset.Position(call.Pos()), name)
				}
			}
			return true
		})
	}
}

// isTest reports whether only tests use the file.
func isTest(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/testenv/") ||
		strings.HasPrefix(path, "test/storetest/")
}

// impatient returns what is wrong with a call and where, nil if nothing is.
func impatient(call *ast.CallExpr, constants map[string]time.Duration) (at ast.Node, problem string) {
	name := calledName(call)
	name = name[strings.LastIndexByte(name, '.')+1:]
	switch name {
	case "SpecTimeout":
		return call, "SpecTimeout includes the time of BeforeAll; use NodeTimeout"
	case "Eventually", "EventuallyWithOffset", "WithTimeout", "Within", "NodeTimeout", "SetDefaultEventuallyTimeout":
		// The first length of time is the timeout, if any; the second is an interval.
		for i, argument := range call.Args {
			if (i == 1 || len(call.Args) == 1) && isShort(argument, constants) && !isExpectedToEnd(call, constants) {
				return argument, name + " of less than " + shortestTimeout.String()
			}
		}
	default:
		return impatientComparison(name, call.Args, constants)
	}
	return nil, ""
}

// impatientComparison returns the argument that makes a comparison fail on a busy machine, and why; nil if none does.
func impatientComparison(name string, args []ast.Expr, constants map[string]time.Duration) (at ast.Node, problem string) {
	switch {
	case name == "BeTemporally" && len(args) == 3 && isShort(args[2], constants):
		return args[2], "allows less than " + shortestTimeout.String()
	case name == "BeNumerically" && len(args) > 1 && strings.HasPrefix(text(args[0]), "<") && isShort(args[1], constants):
		return args[1], "fails after less than " + shortestTimeout.String() + ", without a control in the same run"
	}
	return nil, ""
}

// isShort reports whether the expression names a length of time that a busy machine can exceed.
func isShort(expression ast.Expr, constants map[string]time.Duration) bool {
	limit, ok := lengthOf(expression, constants)
	return ok && limit < shortestTimeout
}

// isExpectedToEnd reports whether the time is part of the test: Consistently always needs all of it, and a context of
// less than a second is one whose end the test awaits.
func isExpectedToEnd(call *ast.CallExpr, constants map[string]time.Duration) bool {
	if calledName(call) == "context.WithTimeout" && len(call.Args) == 2 {
		limit, _ := lengthOf(call.Args[1], constants)
		return limit < time.Second
	}
	consistently := false
	ast.Inspect(call.Fun, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok && name.Name == "Consistently" {
			consistently = true
		}
		return true
	})
	return consistently
}

// impatientCase returns what is wrong with a case of a select and where, nil if nothing is: the test fails when a short
// time is over.
func impatientCase(clause *ast.CommClause, constants map[string]time.Duration) (at ast.Node, problem string) {
	var limit time.Duration
	if clause.Comm == nil {
		return nil, ""
	}
	ast.Inspect(clause.Comm, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && calledName(call) == "time.After" && len(call.Args) == 1 {
			limit, _ = lengthOf(call.Args[0], constants)
		}
		return true
	})
	if limit == 0 || limit >= shortestTimeout {
		return nil, ""
	}
	fails := false
	for _, statement := range clause.Body {
		ast.Inspect(statement, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				name := calledName(call)
				switch name[strings.LastIndexByte(name, '.')+1:] {
				case "Fatal", "Fatalf", "Error", "Errorf", "Fail", "FailNow", "Expect":
					fails = true
				}
			}
			return true
		})
	}
	if !fails {
		return nil, ""
	}
	return clause, "fails after less than " + shortestTimeout.String()
}

// calledName returns the name of the function, with its package or receiver.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok {
			return of.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}

// text returns the value of a string literal, or "".
func text(expression ast.Expr) string {
	if literal, ok := expression.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		value, _ := strconv.Unquote(literal.Value)
		return value
	}
	return ""
}

var unitsOfTime = map[string]time.Duration{
	"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// lengthOf returns the length of time that a constant expression names: 5*time.Second, "5s", a constant, or a sum.
func lengthOf(expression ast.Expr, constants map[string]time.Duration) (time.Duration, bool) {
	switch e := expression.(type) {
	case *ast.ParenExpr:
		return lengthOf(e.X, constants)
	case *ast.Ident:
		d, ok := constants[e.Name]
		return d, ok
	case *ast.BasicLit:
		d, err := time.ParseDuration(text(e))
		return d, err == nil
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok && of.Name == "time" {
			d, ok := unitsOfTime[e.Sel.Name]
			return d, ok
		}
	case *ast.BinaryExpr:
		return lengthOfBinary(e, constants)
	}
	return 0, false
}

func lengthOfBinary(e *ast.BinaryExpr, constants map[string]time.Duration) (time.Duration, bool) {
	switch e.Op {
	case token.ADD:
		x, ok := lengthOf(e.X, constants)
		y, both := lengthOf(e.Y, constants)
		return x + y, ok && both
	case token.QUO: // at most
		return lengthOf(e.X, constants)
	case token.MUL:
		if d, ok := product(e.X, e.Y, constants); ok {
			return d, true
		}
		return product(e.Y, e.X, constants)
	default:
		return 0, false
	}
}

func product(number, unit ast.Expr, constants map[string]time.Duration) (time.Duration, bool) {
	literal, ok := number.(*ast.BasicLit)
	if !ok || literal.Kind != token.INT {
		return 0, false
	}
	n, _ := constant.Int64Val(constant.MakeFromLiteral(literal.Value, token.INT, 0))
	d, ok := lengthOf(unit, constants)
	return time.Duration(n) * d, ok
}

// durationsByFolder returns the lengths of time among the constants of packages.
func durationsByFolder(files map[string]*ast.File) map[string]map[string]time.Duration {
	found := map[string]map[string]time.Duration{}
	for _, path := range slices.Sorted(maps.Keys(files)) { // a constant can be a sum of those in earlier files
		folder := filepath.Dir(path)
		if found[folder] == nil {
			found[folder] = map[string]time.Duration{}
		}
		for _, declaration := range files[path].Decls {
			if constants, ok := declaration.(*ast.GenDecl); ok { // not those within functions
				addDurations(found[folder], constants)
			}
		}
	}
	return found
}

// addDurations adds the lengths of time among the constants within the node.
func addDurations(found map[string]time.Duration, node ast.Node) {
	ast.Inspect(node, func(node ast.Node) bool {
		declaration, ok := node.(*ast.GenDecl)
		if !ok || declaration.Tok != token.CONST {
			return true
		}
		for _, spec := range declaration.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if i < len(value.Values) {
					if d, ok := lengthOf(value.Values[i], found); ok {
						found[name.Name] = d
					}
				}
			}
		}
		return true
	})
}
