// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layout_test checks the shape of the tree: reading orders, sizes, and that the
// files of the engine can be read from the bottom up.
package layout_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/tools/go/packages"
)

const root = "../.."

// sourceFiles returns the hand-written Go files that are not tests, parsed, by their
// path within the repository.
func sourceFiles(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	fset, files := goFiles(t)
	maps.DeleteFunc(files, func(path string, _ *ast.File) bool { return strings.HasSuffix(path, "_test.go") })
	return fset, files
}

// goFiles returns the hand-written Go files, parsed, by their path within the repository.
func goFiles(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	g := NewWithT(t)
	fset, files := token.NewFileSet(), map[string]*ast.File{}
	g.Expect(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "bin" || name == "testdata" || name == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		relative, err := filepath.Rel(root, path)
		files[filepath.ToSlash(relative)] = file
		return err
	})).To(Succeed())
	g.Expect(len(files)).To(BeNumerically(">", 100), "the walk found the tree")
	return fset, files
}

// The package comment of a package with three or more files names each file, in the order in
// which to read them. It is in doc.go, or in one of the files that it names.
func TestPackageCommentNamesEveryFile(t *testing.T) {
	_, files := sourceFiles(t)
	byFolder := map[string][]string{}
	comments := map[string]string{}
	for path, file := range files {
		folder, name := filepath.Split(path)
		if file.Doc != nil {
			comments[folder] += file.Doc.Text()
		}
		if name != "doc.go" {
			byFolder[folder] = append(byFolder[folder], name)
		}
	}
	for folder, names := range byFolder {
		if len(names) < 3 {
			continue
		}
		named := strings.FieldsFunc(comments[folder], func(r rune) bool { return strings.ContainsRune(" \t\n(),:;", r) })
		for _, name := range names {
			if !slices.Contains(named, name) {
				t.Errorf("the package comment of %s does not name %s", folder, name)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	g := NewWithT(t)
	fset, files := goFiles(t)
	var lengths []int
	for path, file := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue // tables may be long
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			lines := fset.Position(function.End()).Line - fset.Position(function.Pos()).Line + 1
			g.Expect(lines).To(BeNumerically("<=", 80), "%s: %s", path, function.Name.Name)
			lengths = append(lengths, lines)
		}
	}
	slices.Sort(lengths)
	g.Expect(lengths[len(lengths)/2]).To(BeNumerically("<=", 10), "median")
	g.Expect(lengths[len(lengths)*95/100]).To(BeNumerically("<=", 50), "95th percentile")
}

// Each file of the engine uses only files that come before it in some order.
func TestEngineFilesFormNoCircle(t *testing.T) {
	g := NewWithT(t)
	uses := fileUses(t, "./internal/limiter/engine")
	g.Expect(len(uses)).To(BeNumerically(">", 5))
	for len(uses) > 0 {
		progress := false
		for file, used := range uses {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(other string) bool { return uses[other] != nil }) {
				delete(uses, file)
				progress = true
			}
		}
		if !progress {
			t.Fatalf("these files use each other in a circle: %v", uses)
		}
	}
}

// fileUses returns, for each file of the package, the other files of the package that
// declare something it uses.
func fileUses(t *testing.T, pattern string) map[string]map[string]bool {
	t.Helper()
	g := NewWithT(t)
	loaded, err := packages.Load(&packages.Config{
		Context: t.Context(), Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}, pattern)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(loaded).To(HaveLen(1))
	p := loaded[0]
	g.Expect(p.Errors).To(BeEmpty())
	uses := map[string]map[string]bool{}
	for _, file := range p.Syntax {
		uses[filepath.Base(p.Fset.Position(file.Pos()).Filename)] = map[string]bool{}
	}
	for identifier, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types {
			continue
		}
		user := filepath.Base(p.Fset.Position(identifier.Pos()).Filename)
		if declared := filepath.Base(p.Fset.Position(object.Pos()).Filename); declared != user {
			uses[user][declared] = true
		}
	}
	return uses
}
