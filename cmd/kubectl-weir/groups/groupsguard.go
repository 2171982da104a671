// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/offline"
)

// removalGuard bounds how many keys an import removes: a truncated file must not empty a group.
type removalGuard struct {
	text    string
	limit   int // keys, or percent of the keys that earlier imports added
	percent bool
}

func (g *removalGuard) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.text, "max-removed", "10%",
		"share of the group's keys, such as 10%, or number of keys, that is removed without a question")
}

// validate reads the flag.
func (g *removalGuard) validate() error {
	digits, percent := strings.CutSuffix(g.text, "%")
	limit, err := strconv.Atoi(digits)
	if err != nil || limit < 0 || percent && limit > 100 {
		return fmt.Errorf("--max-removed %q: must be a share such as 10%% or a number of keys such as 50", g.text)
	}
	g.limit, g.percent = limit, percent
	return nil
}

// allowed returns how many of the keys, whose number was before, may be removed. A share is rounded up, so that small groups can change.
func (g *removalGuard) allowed(before int) int {
	if !g.percent {
		return g.limit
	}
	return (before*g.limit + 99) / 100
}

// check asks whether more keys may be removed than the flag permits. Without a yes it returns an error.
func (g *removalGuard) check(stdin io.Reader, stderr io.Writer, path string, change *groupChange) error {
	removed := len(change.removed)
	if removed <= g.allowed(change.before) {
		return nil
	}
	problem := fmt.Sprintf("%s lacks %d of the %d keys of the group, more than --max-removed %s", path, removed, change.before, g.text)
	terminal, _ := stdin.(*os.File)
	if path != "-" && terminal != nil && offline.IsTerminal(terminal) && confirm(stdin, stderr, problem+". Remove them? [y/N] ") {
		return nil
	}
	return fmt.Errorf("%s: if the file is complete, set --max-removed %d", problem, removed)
}

// confirm reports whether the answer to the question is yes.
func confirm(stdin io.Reader, stderr io.Writer, question string) bool {
	_, _ = fmt.Fprint(stderr, question)
	line, _ := bufio.NewReader(stdin).ReadString('\n') // no answer is no
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
