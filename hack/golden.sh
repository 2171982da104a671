#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Rewrites the golden files from the current behavior of the code. Only packages that define
# the flag -update take part, since go test rejects a flag that a package does not define.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

packages="$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' cmd internal 2>/dev/null |
  xargs -r -n 1 dirname | sort -u)" || true
for package in $packages; do
  echo "golden: ./$package"
  go test -vet=off "./$package" -run Golden -count=1 -update
done
