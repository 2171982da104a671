#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Checks prose with Vale: documents, comments and messages. The rules are in
# hack/vale/styles/Weir. Takes paths to check instead of the whole tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

paths=('*.md' '*.sh' '*.yaml' '*.yml' '*.tpl' '*.json' '*.txt' '*.c' Makefile Dockerfile .ci)
# Add '*.go' '*.lua' to paths, and drop the two exclusions of CRDs, once their comments pass.
excluded=(':!:**/testdata/**' ':!:hack/vale' ':!:config/crd' ':!:charts/weir/files/crds')

if (($# > 0)); then
  paths=("$@")
fi
git ls-files -z --cached --others --exclude-standard -- "${paths[@]}" "${excluded[@]}" |
  xargs -0 go tool -modfile=tools/vale/go.mod vale --output=line
