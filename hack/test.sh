#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs go test with the race detector and prints a summary at the very end. Takes packages
# and flags of go test. ./... means all packages except test/e2e and test/hostile, which
# `make e2e` and `make hostile` run, and includes the modules hack/image, client and
# test/gitops. A skipped test fails the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# By default, Eventually of Gomega waits for one second, which is too short on a busy machine.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=10s

log="$(mktemp)"
trap 'rm -f "$log"' EXIT

# The packages that judge times run after the others, one at a time. Of the others three run at
# once on two cores, because most of them wait for servers half of their time.
alone=(./internal/limiter/expression ./test/faults)

run() {
  local arg everything=false args=() status=0
  for arg in "$@"; do
    if [[ $arg == ./... ]]; then
      everything=true
      mapfile -t -O "${#args[@]}" args < <(go list ./... | grep -vxFf <(go list "${alone[@]}" ./test/e2e ./test/hostile))
    else
      args+=("$arg")
    fi
  done
  if ! $everything; then
    go test -race -v -timeout 30m "${args[@]}" || status=$?
  else
    go test -race -v -timeout 30m -p 3 "${args[@]}" || status=$?
    go test -race -v -timeout 30m -p 1 "${alone[@]}" || status=$?
    GOWORK=off go test -C hack/image -race -v ./... || status=$?
    GOWORK=off go test -C client -race -v ./... || status=$?
    # Without -race, with which the libraries of Kubernetes take ten minutes to compile.
    GOWORK=off go test -C test/gitops -v ./... || status=$?
  fi
  return "$status"
}

start=$SECONDS
# -v reports skips; the lines of passing tests are filtered out.
set +e
run "$@" 2>&1 | tee "$log" |
  grep --line-buffered -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)|\[no test files\]$'
status="${PIPESTATUS[0]}"
set -e

# An input that a fuzz target skips is not a skipped test.
interesting() {
  grep -E "$1" "$log" | grep -v -- '--- SKIP: Fuzz'
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
echo "===== $(count '^ok') packages passed, $(count "$fails") failures, $(count "$skips") skips, $((SECONDS - start))s"
if interesting "$skips|$fails|^ *--- FAIL|\[(FAIL|PANICKED)\]" | sed 's/^/===== /'; then
  exit 1
fi
exit "$status"
