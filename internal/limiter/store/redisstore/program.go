// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"crypto/sha1" //nolint:gosec // the name of a script in Redis, not a safeguard
	"embed"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

//go:embed *.lua
var sources embed.FS

// program is one assembled script.
type program struct {
	source string
	sha    string
}

// programs are the programs of one main file, one for every bit set of bindings, assembled on first use.
type programs struct {
	assemble  func(set uint) program
	assembled [1 << len(bindings)]atomic.Pointer[program]
}

var decidePrograms, refundPrograms = &programs{assemble: assembleDecide}, &programs{assemble: assembleRefund}

// of returns the program of a bit set of bindings.
func (p *programs) of(set uint) program {
	if ready := p.assembled[set].Load(); ready != nil {
		return *ready
	}
	assembled := p.assemble(set)
	p.assembled[set].Store(&assembled)
	return assembled
}

// The programs of one file.
var (
	resetProgram     = ofFiles("base.lua", "clock.lua", "prelude.lua", "block.lua", "reset.lua")
	setBlockProgram  = ofFiles("base.lua", "clock.lua", "prelude.lua", "block.lua", "set_block.lua")
	openHoldsProgram = ofFiles("open_holds.lua")
	blocksProgram    = ofFiles("blocks.lua")
)

func ofFiles(names ...string) func() program {
	return sync.OnceValue(func() program { return newProgram(textOf(names...)) })
}

// generalPath is where batch.lua has the general path, and holdCode where hold.lua has the files of holds.
const (
	generalPath = "--[[general path]]"
	holdCode    = "--[[holds]]"
)

// assembleDecide returns the program of batch.lua.
func assembleDecide(set uint) program {
	shared := sharedFiles(set)
	fast := append(filesOf(set, func(b *binding) []string { return b.fast }), "fast.lua")
	general := generalText(set, shared, "decide.lua")
	return newProgram(textOf(shared...), textOf(fast...), strings.Replace(textOf("batch.lua"), generalPath, general, 1))
}

// assembleRefund returns the program of refund.lua.
func assembleRefund(set uint) program {
	shared := sharedFiles(set)
	return newProgram(textOf(shared...), generalText(set, shared, "refund.lua"))
}

// sharedFiles returns the files that the general path and fast.lua share.
func sharedFiles(set uint) []string {
	return append([]string{"base.lua"}, filesOf(set, func(b *binding) []string { return b.shared })...)
}

// generalText returns the text that decides entries with these bindings, after the shared files, and then the last file.
func generalText(set uint, shared []string, last string) string {
	files := slices.DeleteFunc([]string{"clock.lua", "prelude.lua", "block.lua"}, func(name string) bool {
		return slices.Contains(shared, name)
	})
	holds := textOf("hold_summary.lua", "hold_list.lua", "hold_window.lua", "hold_settle.lua", "hold_reserve.lua", "hold_change.lua")
	algorithms := textOf(filesOf(set, func(b *binding) []string { return b.general })...)
	return textOf(files...) + strings.Replace(textOf("hold.lua"), holdCode, holds, 1) +
		algorithms + textOf("listed.lua", "entry.lua", last)
}

// filesOf returns the files that choose returns for these bindings, each file once.
func filesOf(set uint, choose func(*binding) []string) (names []string) {
	for i := range bindings {
		if set&(1<<i) == 0 {
			continue
		}
		for _, name := range choose(&bindings[i]) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// textOf returns the text of these files.
func textOf(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			panic(err) // embedded: cannot be missing
		}
		all.WriteString(withConstants(string(text)))
	}
	return all.String()
}

// newProgram returns the program that consists of these texts.
func newProgram(texts ...string) program {
	source := strings.Join(texts, "")
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return program{source: source, sha: hex.EncodeToString(sum[:])}
}
