#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs every test with every seed, on Redis and Valkey, and with the race detector wherever it compiles,
# the archives of a release, clocks that differ, and the end-to-end tests with every spec. It needs
# root on Debian, like `make e2e`. It prints the time of each part and continues after one that fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export VALKEY=true

failed=()
part() {
  local start=$SECONDS
  echo "===== $*"
  "$@" || failed+=("$*")
  echo "===== $* ended ($((SECONDS - start))s)"
}

hack/redis.sh valkey || exit 1

# The race detector finds nothing in further seeds, and makes each take five to fifteen times as long.
part env ALL_SEEDS=true make test
part env RACE=true make test
export ALL_SEEDS=true
part env RACE=true make test-kube
part env RACE=true make test-proxies
part env RACE=true make test-console
part env RACE=true make test-process
part env RACE=true make test-faults
part hack/release-test.sh
part hack/clocks.sh
part make e2e SPECS=all

if ((${#failed[@]} > 0)); then
  printf '===== FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "===== everything passed (${SECONDS}s)"
