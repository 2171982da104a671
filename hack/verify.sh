#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs all static checks: generated files are up to date, modules are tidy, the linters of
# code, prose, workflows and the OpenAPI document pass, and the documentation has no dead links.
#
# To add a check: a step that writes tracked files goes under "writers", any other under
# "readers". The tree is compared before and after the writers, so verify also works on a
# tree with changes; it leaves the changes of a writer in place, to be committed. The readers
# run beside the linters of code: with empty caches they mostly wait for downloads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

if ! git rev-parse --git-dir >/dev/null 2>&1; then
  echo "verify: needs a git checkout, to detect changes of generated files" >&2
  exit 1
fi

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/objects"
objects="$(git rev-parse --path-format=absolute --git-path objects)"

# snapshot prints an id of the whole content of the tree, including new files. It neither
# touches the index nor leaves objects in the repository.
aside() {
  GIT_INDEX_FILE="$scratch/index" GIT_OBJECT_DIRECTORY="$scratch/objects" \
    GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" git "$@"
}
snapshot() {
  rm -f "$scratch/index"
  aside add --all .
  aside write-tree
}

failed="$scratch/failed"
step() {
  local name="$1"
  shift
  echo "verify: $name"
  "$@" || echo "$name" >>"$failed"
}

tidy() {
  (cd "$1" && GOWORK=off go mod tidy -diff)
}

before="$(snapshot)"

# Writers.
step generate make --no-print-directory generate
step manifests make --no-print-directory manifests
step golden make --no-print-directory golden

after="$(snapshot)"
if [[ "$before" != "$after" ]]; then
  aside --no-pager diff "$before" "$after"
  echo "generated files: were not up to date and have been regenerated; please commit the difference above" >>"$failed"
fi

readers() {
  local module
  for module in . tools tools/actionlint tools/vale hack/kube hack/cluster hack/gateway hack/image client test/gitops; do
    step "go mod tidy in $module" tidy "$module"
  done
  step prose make --no-print-directory prose
  step methods hack/methods.sh
  step openapi make --no-print-directory openapi
  step docs make --no-print-directory docs
  step workflows make --no-print-directory workflows
}
readers >"$scratch/readers" 2>&1 &
trap 'kill $! 2>/dev/null || true; rm -rf "$scratch"' EXIT
step lint make --no-print-directory lint
wait $!
cat "$scratch/readers"

if [[ -s "$failed" ]]; then
  sed 's/^/verify: FAILED: /' "$failed" >&2
  exit 1
fi
echo "verify: passed"
