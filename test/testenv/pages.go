// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// CodeBlocks returns the code blocks of a page of the documentation in that language, each with its last newline.
func CodeBlocks(page, language string) (blocks []string) {
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// ConsoleBlock is a console block of a page of the documentation.
type ConsoleBlock struct {
	// Heading is the heading above the block.
	Heading string
	Steps   []ConsoleStep
}

// ConsoleStep is a command of a console block with its output.
type ConsoleStep struct{ Command, Output string }

var (
	consoleHeading   = regexp.MustCompile("^#+ +(.*)$")
	consoleTimestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	consoleWord      = regexp.MustCompile(`'[^']*'|\S+`)
)

// ConsoleBlocks returns the console blocks of a page, which is named by its path in docs.
func ConsoleBlocks(tb testing.TB, page string) (blocks []ConsoleBlock) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(ModuleRoot(tb), "docs", page))
	if err != nil {
		tb.Fatal(err)
	}
	under, inside, fenced := "", false, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced, inside = !fenced, line == "```console"
			if inside {
				blocks = append(blocks, ConsoleBlock{Heading: under})
			}
		case inside && isCommand:
			last := &blocks[len(blocks)-1]
			last.Steps = append(last.Steps, ConsoleStep{Command: command})
		case inside:
			steps := blocks[len(blocks)-1].Steps
			steps[len(steps)-1].Output += line + "\n"
		case !fenced && consoleHeading.MatchString(line):
			under = consoleHeading.FindStringSubmatch(line)[1]
		}
	}
	return blocks
}

// Words returns the words of the command. Single quotes keep a word together and are removed.
func (s ConsoleStep) Words() (words []string) {
	for _, word := range consoleWord.FindAllString(s.Command, -1) {
		words = append(words, strings.Trim(word, "'"))
	}
	return words
}

// IsSameOutput compares an output with the one on a page. Durations may differ by less than a minute, timestamps by
// any time, and columns in their width.
func IsSameOutput(got, want string) bool {
	is, should := strings.Split(got, "\n"), strings.Split(want, "\n")
	return slices.EqualFunc(is, should, func(a, b string) bool {
		return slices.EqualFunc(strings.Fields(a), strings.Fields(b), isSameWord)
	})
}

func isSameWord(a, b string) bool {
	if a == b || consoleTimestamp.MatchString(a) && consoleTimestamp.MatchString(b) {
		return true
	}
	x, err := time.ParseDuration(strings.TrimRight(a, ".,"))
	y, other := time.ParseDuration(strings.TrimRight(b, ".,"))
	return err == nil && other == nil && math.Abs((x-y).Seconds()) < 60
}
