#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of tiers (hack/tiers.sh) or packages, with flags of go test, and prints a summary
# at the very end:
#
#   hack/test.sh unit
#   hack/test.sh -run TestBatches ./internal/limiter/store/redisstore
#
# ALL_SEEDS=true does not scale the seeds of random operations, RACE=true runs with the race
# detector (so does the tier race), VALKEY=true tests on valkey-server, too. A skipped test fails
# the run, except where a machine has no clock for servers: then a line names each test that needs
# one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

# Gomega's own default is a second, which is too short on a busy machine.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT="${GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT:-30s}"

# Timings of expressions are compared with each other, and test/faults kills and freezes servers under load: these
# packages run after the others. Of the others three run at once on two cores, because most of them wait for servers
# half of their time.
alone="$(go list ./internal/limiter/expression ./test/faults)"

# These take longest, so they start first: at the end one would run alone.
longest="$(go list ./internal/limiter/store/{redisstore,slicecache} ./test/ledger)"

# These count bytes, compare times, have one goroutine or are a model for tests: under the race detector they take
# five to fifteen times as long and find nothing. RACE=true leaves them to the tier unit without it.
unraced="$(go list ./test/{layout,ledger,reference})"
unraced_tests='^Test(Protocol(Defects)?|BuildingIsLinear|EveryNearMatchIsReported|ExplanationsAgreeWithDecisions|Weights.*|MemoryOfKeyGroups|ReadingValuesIsBounded|LookupsOfLongHosts|.*Prices.*Hold|BoundsOfRandomTextsHold|HostileExpressionsTakeTheirShare'
unraced_tests+='|Promises|EdgeValues|RoutesWithDifferentRequestedLimits|BytesOfA(Key|Charge)|Index(IsASum|NarrowsDown)|CandidatesAreOfTheTenant'
unraced_tests+='|(SlowRequests|UnreadResponses|UnfinishedMessagesOfManyConnections)AreBounded)$'

# Tests of these tiers are in modules of their own, too. test/gitops has the libraries of kubectl.
modules() {
  case "$1" in
    unit) printf '%s\n' "client ." "client ./weirgrpc" "hack/image ./..." ;;
    process) echo "client ./e2e" ;;
    kube) echo "test/gitops ./..." ;;
  esac
}

flags=(-vet=off -count=1 -timeout 30m) skip=()
[[ "${ALL_SEEDS:-}" == true ]] || flags+=(-short)
[[ "${VALKEY:-}" != true ]] || flags+=(-tags valkey,grpcnotrace)

tiers=() rest=()
for arg in "$@"; do
  case "$arg" in
    unit | race | kube | proxies | console | process | faults) tiers+=("$arg") ;;
    *) rest+=("$arg") ;;
  esac
done
[[ " ${tiers[*]} " != *" race "* ]] || RACE=true
if [[ "${RACE:-}" == true ]]; then
  export CGO_ENABLED=1
  flags+=(-race) skip=(-skip "$unraced_tests")
  alone="$(go list ./test/faults)"
fi

log="$(mktemp)"
trap 'rm -f "$log"' EXIT

run() {
  local tier folder package listed status=0 packages=() together=() last=()
  if ((${#tiers[@]} == 0)); then
    go test -v "${flags[@]}" "${rest[@]}"
    return
  fi
  for tier in "${tiers[@]}"; do
    mapfile -t -O "${#packages[@]}" packages < <(hack/tiers.sh "$tier")
  done
  # After a flag of a test, go test reads no more packages.
  ((${#packages[@]} > 0)) || { echo "test: no packages in ${tiers[*]}" >&2; return 1; }
  listed="$(go list "${packages[@]}")"
  mapfile -t together < <(grep -xF "$longest" <<<"$listed"; grep -vxF "$longest"$'\n'"$alone" <<<"$listed")
  if [[ "${RACE:-}" == true ]] && ((${#together[@]} > 0)); then
    mapfile -t together < <(printf '%s\n' "${together[@]}" | grep -vxF "$unraced")
  fi
  mapfile -t last < <(grep -xF "$alone" <<<"$listed")
  if ((${#together[@]} > 0)); then
    go test -v -p 3 "${flags[@]}" "${skip[@]}" "${together[@]}" "${rest[@]}" || status=$?
  fi
  if ((${#last[@]} > 0)); then
    go test -v -p 1 "${flags[@]}" "${skip[@]}" "${last[@]}" "${rest[@]}" || status=$?
  fi
  for tier in "${tiers[@]}"; do
    while read -r folder package; do
      GOWORK=off go test -C "$folder" -v "${flags[@]}" "$package" "${rest[@]}" </dev/null || status=$?
    done < <(modules "$tier")
  done
  return "$status"
}

start=$SECONDS
# -v reports skips; the lines of passing tests are filtered out.
set +e
run 2>&1 | tee "$log" |
  grep --line-buffered -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)|\[no test files\]$'
status="${PIPESTATUS[0]}"
set -e

# A test that skips itself without a clock logs this reason, with its name. In CI no test may.
clockless="$(sed -n 's/.*needs a clock in the server, so Linux and a C compiler: //p' "$log" | sort -u)"
[[ "${CI:-}" != true ]] || clockless=''
# An input that a fuzz target skips is not a skipped test.
interesting() {
  awk -v clockless="$clockless" '
    BEGIN { count = split(clockless, names, "\n"); for (i = 1; i <= count; i++) excused[names[i]] = 1 }
    /^ *--- SKIP: / && ($3 ~ /^Fuzz/ || $3 in excused) { next }
    { print }' "$log" | grep -E "$1" || true
}
count() {
  interesting "$1" | wc -l
}
skips='^ *--- SKIP|[^0-9][1-9][0-9]* (Skipped|Pending)'
# Ginkgo counts specs outside the focus as skipped.
[[ "$*" != *-ginkgo.* ]] || skips='^ *--- SKIP'
fails='^(FAIL	|--- FAIL)'

echo
echo "===== slowest packages:"
grep -E '^(ok  |FAIL)	' "$log" | awk '$3 ~ /s$/ {printf "%8.1fs %s\n", $3, $2}' | sort -rn | head -10 || true
[[ -z $clockless ]] || sed 's/^/===== not run, needs Linux and a C compiler: /' <<<"$clockless"
echo "===== $(count '^ok') packages passed, $(count "$fails") failures, $(count "$skips") skips, $((SECONDS - start))s"
failed="$(interesting "$skips|$fails|^ *--- FAIL|\[(FAIL|PANICKED)\]" | sed 's/^/===== /')"
if [[ -n $failed ]]; then
  echo "$failed"
  exit 1
fi
exit "$status"
