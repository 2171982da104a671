// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"strings"

	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// replaceSlowFunctions replaces functions of the library by faster ones. They differ from it:
//
//   - split fails for more than maxParts parts, unless its limit is smaller.
//   - A text of more than maxNumber bytes cannot be converted to a number or time.
//   - lowerAscii and upperAscii keep bytes that are not UTF-8.
func replaceSlowFunctions(patterns map[string]*pattern) interpreter.InterpretableDecorator {
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		call, isCall := i.(interpreter.InterpretableCall)
		if !isCall {
			return i, nil
		}
		replacement := replacements[call.Function()]
		switch call.Function() {
		case overloads.Matches:
			replacement = matchesOneOf(patterns)
		case overloads.TypeConvertBool, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble,
			overloads.TypeConvertDuration, overloads.TypeConvertTimestamp:
			if _, isConstant := call.Args()[0].(interpreter.InterpretableConst); isConstant {
				return i, nil // the library converts it once
			}
		}
		if replacement == nil {
			return i, nil
		}
		return opaque{interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), replacement)}, nil
	}
}

// opaque hides that it is a call: else the library would replace it again.
type opaque struct{ interpreter.InterpretableV2 }

// replacements are by name.
var replacements = map[string]func(args ...ref.Val) ref.Val{
	"lowerAscii": onText(lowerASCII),
	"upperAscii": onText(upperASCII),
	"split":      splitText,

	overloads.TypeConvertBool:      convertShort(types.BoolType),
	overloads.TypeConvertInt:       convertShort(types.IntType),
	overloads.TypeConvertUint:      convertShort(types.UintType),
	overloads.TypeConvertDouble:    convertShort(types.DoubleType),
	overloads.TypeConvertDuration:  convertShort(types.DurationType),
	overloads.TypeConvertTimestamp: convertShort(types.TimestampType),
}

// convertShort converts a value to the type. The error for a long text does not contain it.
func convertShort(to ref.Type) func(args ...ref.Val) ref.Val {
	return func(args ...ref.Val) ref.Val {
		if text, isText := args[0].(types.String); isText && len(text) > maxNumber {
			return types.NewErr("type conversion error: a text of %d bytes is too long for %s", len(text), to.TypeName())
		}
		return args[0].ConvertToType(to)
	}
}

// onText returns the function of CEL that calls f. A value of another type, which dyn() can
// pass, is an error.
func onText(f func(string) string) func(args ...ref.Val) ref.Val {
	return func(args ...ref.Val) ref.Val {
		text, isText := args[0].(types.String)
		if !isText {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		return types.String(f(string(text)))
	}
}

func matchesOneOf(patterns map[string]*pattern) func(args ...ref.Val) ref.Val {
	return func(args ...ref.Val) ref.Val {
		text, isText := args[0].(types.String)
		of, _ := args[1].(types.String)
		p, isKnown := patterns[string(of)]
		if !isText || !isKnown {
			return types.NoSuchOverloadErr()
		}
		return types.Bool(p.match(string(text)))
	}
}

// splitText returns the parts of the text, like strings.SplitN with a limit.
func splitText(args ...ref.Val) ref.Val {
	text, isText := args[0].(types.String)
	separator, isSeparator := args[1].(types.String)
	limit, isLimit := types.Int(-1), true
	if len(args) > 2 {
		limit, isLimit = args[2].(types.Int)
	}
	if !isText || !isSeparator || !isLimit {
		return types.NoSuchOverloadErr()
	}
	if limit < 0 || limit > maxParts {
		parts := strings.Count(string(text), string(separator)) + 1
		if separator == "" {
			parts -= 2 // Count also counts both ends
		}
		if parts > maxParts {
			return unreadable("a text has %d parts, more than %d", parts, maxParts)
		}
	}
	return types.NewStringList(types.DefaultTypeAdapter, strings.SplitN(string(text), string(separator), int(limit)))
}

// lowerASCII returns the text with its ASCII letters in lower case.
func lowerASCII(text string) string { return switchCase(text, 'A', 'Z') }

// upperASCII returns the text with its ASCII letters in upper case.
func upperASCII(text string) string { return switchCase(text, 'a', 'z') }

// switchCase changes the case of the ASCII letters from first to last.
func switchCase(text string, first, last byte) string {
	for i := range len(text) {
		if text[i] < first || text[i] > last {
			continue
		}
		changed := []byte(text)
		for j := i; j < len(changed); j++ {
			if changed[j] >= first && changed[j] <= last {
				changed[j] ^= 'a' ^ 'A'
			}
		}
		return string(changed)
	}
	return text
}
