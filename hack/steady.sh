#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of packages or of a tier several times beside one busy process for each core, and
# prints how often each test failed: steady.sh 'PACKAGES OR TIER' COUNT [TESTS]. The logs of failed
# runs stay in bin/steady.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=30s

read -ra packages <<<"$1"
count="$2"
tests="${3:-.}"
((${#packages[@]} > 0)) || { echo "steady: PKG names no package" >&2; exit 2; }
if [[ ${packages[*]} == unit || ${packages[*]} == process || ${packages[*]} == kube ]]; then
  mapfile -t packages < <(hack/tiers.sh "${packages[0]}")
fi

rm -rf bin/steady
mkdir -p bin/steady
busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < $(getconf _NPROCESSORS_ONLN); i++)); do
  # It ends when this script has been killed, too.
  (while kill -0 $$ 2>/dev/null; do for ((n = 0; n < 1000000; n++)); do :; done; done) &
  busy+=($!)
done

failed=0
for ((run = 1; run <= count; run++)); do
  log="bin/steady/$run.log"
  start=$SECONDS
  if go test -short -vet=off -count=1 -timeout 60m -p 3 -run "$tests" "${packages[@]}" >"$log" 2>&1 && ! grep -q 'no tests to run' "$log"; then
    echo "steady: run $run of $count passed ($((SECONDS - start))s)"
    rm "$log"
  else
    echo "steady: run $run of $count FAILED ($((SECONDS - start))s): $log"
    failed=$((failed + 1))
  fi
done
if ((failed > 0)); then
  echo "steady: $failed of $count runs failed; by test:"
  { grep -hE '^ *--- FAIL|\[FAIL\]|^panic: test timed out|^FAIL	.*build failed|no tests to run' bin/steady/*.log || true; } |
    sed -E 's/ \([0-9.]+s\)//' | sort | uniq -c | sort -rn
  exit 1
fi
