#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs every test with every seed, on Redis and Valkey, with the race detector wherever it compiles,
# the archives of a release, clocks that differ, and the end-to-end tests with every spec. It needs
# root on Debian, like `make e2e`. It prints the time of each part and continues after one that fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export ALL_SEEDS=true VALKEY=true

failed=()
part() {
  local start=$SECONDS
  echo "===== $*"
  "$@" || failed+=("$*")
  echo "===== $* ended ($((SECONDS - start))s)"
}

hack/redis.sh valkey || exit 1

RACE=true part make test
RACE=true part make test-kube
RACE=true part make test-proxies
RACE=true part make test-console
RACE=true part make test-process
RACE=true part make test-faults
part hack/release-test.sh
part hack/clocks.sh
part make e2e SPECS=all

if ((${#failed[@]} > 0)); then
  printf '===== FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "===== everything passed (${SECONDS}s)"
