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
corpus="$(go env GOCACHE)/fuzz" # where go test keeps it
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
built=''
grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' api cmd internal 2>/dev/null |
  sed -E 's/^(.*)\/[^\/]*:[0-9]+:func (Fuzz.*)$/\1 \2/' | sort -u |
  while read -r package target; do
    echo "fuzz: $target in ./$package for $fuzztime"
    # go test -fuzz links a package again for each target.
    if [[ "$package" != "$built" ]]; then
      go test -c -vet=off -fuzz=. -o "$folder/test" "./$package"
      cache="$corpus/$(go list "./$package")"
      built="$package"
    fi
    (cd "$package" && "$folder/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$fuzztime" \
      -test.fuzzminimizetime 10x -test.fuzzcachedir "$cache" </dev/null)
  done
