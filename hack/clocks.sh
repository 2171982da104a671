#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Tests with clocks that differ: builds programs whose clock can be moved, by an overlay of Go's
# package time, tests that it moves, and runs the scenario `clocks` of test/conform. The
# overlay compiles everything again, so only `make test-all` runs this.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mkdir -p bin/test
go run ./test/conform --overlay "$folder"
go build -overlay "$folder/overlay.json" -o bin/test/clock ./test/conform/system/testdata/clock
hack/test.sh -tags clocks,grpcnotrace -run Overlay ./test/conform/system
go build -overlay "$folder/overlay.json" -buildvcs=false -o bin/test/weir-clocks ./cmd/weir
go run ./test/conform --weir bin/test/weir-clocks --scenarios clocks "$@"
