#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds weir of the commit that `make bench-check` compares with, in bin/baseline/<commit>/, and
# prints its path, or nothing in a checkout without that commit.
#
# Move the commit forward when a change is worth the time that it costs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

commit=9285973917cbe5c2f11947bf0ee9854b430ab629

program="bin/baseline/$commit/weir"
if [[ ! -x "$program" ]]; then
  if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "baseline: commit $commit is not in this checkout: fetch the whole history to compare with it" >&2
    exit 0
  fi
  mkdir -p "${program%/*}"
  tmp="$(mktemp -d "${program%/*}/.partial.XXXXXX")"
  trap 'rm -rf "$tmp"' EXIT
  git archive "$commit" | tar -x -C "$tmp"
  (cd "$tmp" && GOWORK=off go build -buildvcs=false -o weir ./cmd/weir)
  mv "$tmp/weir" "$program"
fi
echo "$PWD/$program"
