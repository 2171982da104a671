// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"

	"github.com/weir-dev/weir/internal/spelling"
)

// oneLine returns the issues of the text, which may read these variables, as one line, for the message of a status
// condition.
func oneLine(text string, issues *cel.Issues, variables []string) error {
	problems := make([]string, 0, len(issues.Errors()))
	for _, e := range issues.Errors() {
		problem := e.Message
		if name := unknownName.FindStringSubmatch(problem); name != nil {
			problem = undeclared(name[1], from(text, e.Location), variables)
		}
		if line := e.Location.Line(); line > 0 { // else it is about the whole
			problem = fmt.Sprintf("%d:%d: %s", line, e.Location.Column()+1, problem)
		}
		problems = append(problems, problem)
	}
	return errors.New(strings.Join(problems, "; "))
}

var (
	// unknownName matches the issue about a name, and captures its first part.
	unknownName = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	// dottedName matches a name with a member at the beginning of a text.
	dottedName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?`)
)

// from returns the rest of the text from the location on.
func from(text string, at common.Location) string {
	lines := strings.Split(text, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	return string(line[min(at.Column(), len(line)):])
}

// undeclared explains a name that does not exist. The rest of the text begins with it if it is a
// variable.
func undeclared(name, rest string, variables []string) string {
	whole := dottedName.FindString(rest)
	if first, _, _ := strings.Cut(whole, "."); first != name {
		text := fmt.Sprintf("undeclared reference to function '%s'", name)
		if meant := spelling.Closest(name, functionNames()); meant != "" {
			text += "; did you mean " + meant + "?"
		}
		return text
	}
	if len(variables) == 1 {
		return fmt.Sprintf("undeclared reference to '%s'; the only variable is %s", whole, variables[0])
	}
	whole, meant := variableLike(whole)
	text := fmt.Sprintf("undeclared reference to '%s'; ", whole)
	if meant != "" {
		return text + "did you mean " + meant + "?"
	}
	return text + "the variables are " + strings.Join(variables, ", ")
}

// variableLike returns the name of the variable in the dotted name, and the variable that was
// probably meant, or "". A name may lack "request.".
func variableLike(dotted string) (name, meant string) {
	first, member, _ := strings.Cut(dotted, ".")
	if spelling.Closest(first, []string{"request"}) != "" {
		return dotted, variableOf(member)
	}
	return first, variableOf(first)
}

// variableOf returns the variable whose last part is closest to the name, or "".
func variableOf(name string) string {
	variableBy, parts := map[string]string{}, []string{}
	for _, variable := range ofRequests().variables {
		part := strings.TrimPrefix(variable, "request.")
		variableBy[part] = variable
		parts = append(parts, part)
	}
	return variableBy[spelling.Closest(name, parts)]
}

// functionNames returns the names of functions without the operators.
func functionNames() (names []string) {
	for name := range ofRequests().Functions() {
		if dottedName.FindString(name) == name && !strings.HasPrefix(name, "_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
