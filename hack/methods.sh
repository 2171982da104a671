#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fails if the linker keeps every exported method of weir or kubectl-weir, because something that
# they link calls methods by a name that is not a constant: that makes weir half as large again. It
# prints the chain of calls from main to the one that does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

edges="$(mktemp)"
trap 'rm -f "$edges"' EXIT
failed=false
for program in ./cmd/weir ./cmd/kubectl-weir; do
  # The linker writes an edge a line, and marks functions: "main.main <ReflectMethod> -> other".
  go build -ldflags=-dumpdep -o /dev/null "$program" 2>"$edges" || { grep -v -- ' -> ' "$edges" >&2; exit 1; }
  grep -q '^main.main' "$edges" || { echo "methods: the linker wrote no edges for $program" >&2; exit 1; }
  awk -F ' -> ' -v program="$program" '
    function name(text) { sub(/( <[A-Za-z]+>)+$/, "", text); return text }
    NF == 2 {
      from = name($1); to = name($2)
      if ($1 ~ /<ReflectMethod>/) marked[from]
      if ($2 ~ /<ReflectMethod>/) marked[to]
      calls[from] = calls[from] "\n" to
    }
    # Types come last: one that is kept also keeps methods that would otherwise be removed.
    END {
      queue[last = 1] = "_"; caller["_"] = ""
      for (i = 1; i <= last || j < types; i++) {
        at = i <= last ? queue[i] : (queue[++last] = type[++j])
        if (at in marked) { report(at); exit 1 }
        count = split(calls[at], callees, "\n")
        for (k = 2; k <= count; k++) {
          to = callees[k]
          if (to in caller) continue
          caller[to] = at
          if (to ~ /^type:/) type[++types] = to
          else queue[++last] = to
        }
      }
      for (at in marked) { report(at); exit 1 }
    }
    function report(at,    chain) {
      for (chain = at; caller[at] != "_" && caller[at] != ""; ) { at = caller[at]; chain = at "\n    " chain }
      printf "methods: %s keeps every exported method, because of\n    %s\n", program, chain
    }' "$edges" || failed=true
done
[[ "$failed" == false ]]
