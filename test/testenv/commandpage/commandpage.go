// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandpage writes the reference of the commands and flags of a program as a page of the
// documentation. Tests of the programs compare the page with the commands; make golden rewrites it.
package commandpage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Options configure a page.
type Options struct {
	// Title and Intro begin the page. Required.
	Title, Intro string
	// Omit are names of flags that all commands have and that the page leaves out, such as flags of kubectl.
	Omit []string
}

// Of returns the page of the commands below root, and of their flags. A flag that all commands have is listed
// once. Hidden commands and flags, help and completions are left out.
func Of(root *cobra.Command, o Options) string {
	p := &page{omit: append([]string{"help", "version"}, o.Omit...)}
	p.printf("# %s\n\n%s `make golden` writes this page from the program.\n", o.Title, o.Intro)
	if shared := p.flagsOf(root.PersistentFlags()); len(shared) > 0 {
		p.printf("\n## Flags of every command\n\n")
		p.table(shared)
	}
	p.commands(root)
	return p.text.String()
}

// page is the text of a page.
type page struct {
	text strings.Builder
	omit []string
}

func (p *page) printf(format string, args ...any) { _, _ = fmt.Fprintf(&p.text, format, args...) }

// commands writes the sections of the commands below the parent.
func (p *page) commands(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		p.printf("\n## %s\n\n%s.\n\n```\n%s\n```\n", c.CommandPath(), c.Short, c.UseLine())
		if flags := p.flagsOf(c.LocalNonPersistentFlags()); len(flags) > 0 {
			p.printf("\n")
			p.table(flags)
		}
		p.commands(c)
	}
}

// flagsOf returns the visible flags, by name.
func (p *page) flagsOf(set *pflag.FlagSet) (flags []*pflag.Flag) {
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(p.omit, f.Name) {
			flags = append(flags, f)
		}
	})
	slices.SortFunc(flags, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	return flags
}

func (p *page) table(flags []*pflag.Flag) {
	p.printf("| flag | default | |\n|---|---|---|\n")
	for _, f := range flags {
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		p.printf("| `%s` | %s | %s |\n", name, defaultOf(f), strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(usage))
	}
}

// defaultOf returns the default, empty for an empty or false one, as in the help of the program.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "[]", "0s":
		return ""
	}
	return "`" + strings.ReplaceAll(f.DefValue, "|", `\|`) + "`"
}
