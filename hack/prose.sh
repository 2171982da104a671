#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Checks prose with Vale: documents, comments and messages. The rules are in
# hack/vale/styles/Weir. Takes paths to check instead of the whole tree.
#
# Vale is built from its Go module, at the version in tools/vale/go.mod, which takes a
# minute the first time and needs a C++ compiler for the parsers of source code.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

paths=('*.go' '*.lua' '*.md' '*.sh' '*.yaml' '*.yml' '*.tpl' '*.json' '*.txt' '*.c' Makefile Dockerfile .ci)
excluded='(^|/)testdata/|^hack/vale/'

compiler="$(go env CXX)"
if ! command -v "${compiler%% *}" >/dev/null; then
  can_apt || { echo "prose: missing $compiler. Please install a C++ compiler" >&2 && exit 1; }
  apt_begin prose g++
  apt_install g++
fi

if (($# > 0)); then
  paths=("$@")
fi
mapfile -d '' files < <(
  git ls-files -z --cached --others --exclude-standard -- "${paths[@]}" | grep -zvE "$excluded"
)
((${#files[@]} > 0)) || { echo "prose: no files match ${paths[*]}" >&2 && exit 1; }
# The parsers are in C.
CGO_ENABLED=1 go tool -modfile=tools/vale/go.mod vale --output=line "${files[@]}"
