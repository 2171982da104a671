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
)

//go:embed *.lua
var sources embed.FS

// program is one assembled script.
type program struct {
	source string
	sha    string
}

// holdsBit selects hold.lua; the lower bits select algorithms.
const holdsBit uint = 1 << len(luas)

// programs are the scripts of one main file, one for every bit set of algorithms and hold.lua,
// assembled on first use.
type programs [holdsBit << 1]func() program

var decideScripts, refundScripts = newPrograms(assembleDecide), newPrograms(assembleRefund)

var resetProgram = sync.OnceValue(func() program { return newProgram(textOf("reset.lua")) })

var openHoldsProgram = sync.OnceValue(func() program { return newProgram(textOf("open_holds.lua")) })

func newPrograms(assemble func(set uint) program) *programs {
	var all programs
	for set := range all {
		all[set] = sync.OnceValue(func() program { return assemble(uint(set)) })
	}
	return &all
}

// generalCode is where batch.lua has the general code.
const generalCode = "--[[general code]]"

// assembleDecide returns the program of batch.lua.
func assembleDecide(set uint) program {
	general := textOf(append(generalFiles(set), "decide.lua")...)
	return newProgram(textOf(append(baseFiles(set), "lean.lua")...), strings.Replace(textOf("batch.lua"), generalCode, general, 1))
}

func assembleRefund(set uint) program {
	return newProgram(textOf(baseFiles(set)...), textOf(generalFiles(set)...), textOf("refund.lua"))
}

// baseFiles returns base.lua and what the algorithms add for lean.lua, some of which the general code
// uses.
func baseFiles(set uint) []string {
	names := []string{"base.lua"}
	for i, k := range luas {
		if set&(1<<i) == 0 {
			continue
		}
		if library := leanFile(k.library); k.library != "" && !slices.Contains(names, library) {
			names = append(names, library)
		}
		if k.lean {
			names = append(names, leanFile(k.file))
		}
	}
	return names
}

func leanFile(name string) string { return strings.TrimSuffix(name, ".lua") + "_lean.lua" }

// generalFiles returns the files that decide entries with these algorithms.
func generalFiles(set uint) []string {
	names := []string{"prelude.lua"}
	if set&holdsBit != 0 {
		names = append(names, "hold.lua")
	}
	for i, k := range luas {
		if set&(1<<i) == 0 {
			continue
		}
		if k.library != "" && !slices.Contains(names, k.library) {
			names = append(names, k.library)
		}
		names = append(names, k.file)
	}
	return append(names, "listed.lua", "entry.lua")
}

// textOf returns the text of these files.
func textOf(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			panic(err) // embedded: cannot be missing
		}
		all.Write(text)
	}
	return all.String()
}

// newProgram returns the program that consists of these texts.
func newProgram(texts ...string) program {
	source := strings.Join(texts, "")
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return program{source: source, sha: hex.EncodeToString(sum[:])}
}
