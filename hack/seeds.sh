#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Compares the stores, the caches and the engine with the model at random, on Redis and Valkey, for
# about the given number of seconds. The seeds begin at a number of the commit, so that
# every commit tries others: WEIR_TEST_FIRST_SEED sets it, to repeat a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

# No test takes more seeds at once.
step=100
packages=(store/redisstore store/denialcache store/slicecache engine)
# The tests with seeds, and those whose outcome depends on the order of concurrent calls.
tests='Model|Exact|AllOrNothing|Share|Candidate'

seconds="$1"
first="${WEIR_TEST_FIRST_SEED:-$((16#$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0) % 1000000))}"
echo "seeds: from $first on"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
for package in "${packages[@]}"; do
  go test -c -vet=off -tags valkey,grpcnotrace -o "$folder/${package##*/}" "./internal/limiter/$package"
done

start=$SECONDS runs=0
for ((; ; first += step)); do
  for package in "${packages[@]}"; do
    # Each package has its turn at least once.
    if ((runs >= ${#packages[@]} && SECONDS - start >= seconds)); then
      echo "seeds: $runs runs of a package passed in $((SECONDS - start))s; the next would begin at $first"
      exit
    fi
    if ! (cd "internal/limiter/$package" && WEIR_TEST_FIRST_SEED="$first" "$folder/${package##*/}" \
      -test.short -test.run "$tests" -test.timeout 10m) >"$folder/log" 2>&1 || grep -q 'no tests to run' "$folder/log"; then
      cat "$folder/log"
      echo "seeds: internal/limiter/$package fails with WEIR_TEST_FIRST_SEED=$first" >&2
      exit 1
    fi
    runs=$((runs + 1))
  done
done
