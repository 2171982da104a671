// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

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

// programs are the scripts of one main file, one for every bit set of algorithms,
// assembled on first use.
type programs [1 << len(kinds)]func() program

var decideScripts, refundScripts = newPrograms("decide.lua"), newPrograms("refund.lua")

var resetProgram = sync.OnceValue(func() program { return newProgram("reset.lua") })

func newPrograms(main string) *programs {
	var all programs
	for set := range all {
		all[set] = sync.OnceValue(func() program { return assemble(uint(set), main) })
	}
	return &all
}

func assemble(set uint, main string) program {
	names := []string{"prelude.lua"}
	for i, k := range kinds {
		if set&(1<<i) == 0 {
			continue
		}
		if k.library != "" && !slices.Contains(names, k.library) {
			names = append(names, k.library)
		}
		names = append(names, k.file)
	}
	return newProgram(append(names, "listed.lua", "entry.lua", main)...)
}

// newProgram returns the program that consists of these files.
func newProgram(files ...string) program {
	var source strings.Builder
	for _, name := range files {
		text, err := sources.ReadFile(name)
		if err != nil {
			panic(err) // embedded: cannot be missing
		}
		source.Write(text)
	}
	sum := sha1.Sum([]byte(source.String())) //nolint:gosec // see the import
	return program{source: source.String(), sha: hex.EncodeToString(sum[:])}
}
