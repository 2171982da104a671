#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target, one after the other, because go test fuzzes one at a time. The
# argument is the -fuzztime of each: a duration, or a number of inputs such as 1000x.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

fuzztime="${1:-10s}"
grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' api cmd internal 2>/dev/null |
  sed -E 's/^(.*)\/[^\/]*:[0-9]+:func (Fuzz.*)$/\1 \2/' | sort -u |
  while read -r package target; do
    echo "fuzz: $target in ./$package for $fuzztime"
    go test -vet=off "./$package" -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" \
      -fuzzminimizetime 10x </dev/null
  done
