#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Makes a redis-server (6.2 or later, or a Valkey) and a C compiler present: the
# tests start the first and compile the clock they preload into it with the
# second, which Go's race detector needs as well. Does nothing when both are there.
set -euo pipefail

min_major=6
min_minor=2

has_redis() {
  local version
  if command -v valkey-server >/dev/null; then
    return 0
  fi
  command -v redis-server >/dev/null || return 1
  version="$(redis-server --version | sed -n 's/.* v=\([0-9]*\.[0-9]*\).*/\1/p')"
  if ((${version%.*} > min_major || (${version%.*} == min_major && ${version#*.} >= min_minor))); then
    return 0
  fi
  echo "redis: redis-server $version is too old, $min_major.$min_minor or later is needed"
  return 1
}

packages=()
has_redis || packages+=(redis-server)
command -v cc >/dev/null || packages+=(gcc libc6-dev)
if ((${#packages[@]} == 0)); then
  exit 0
fi

if [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null; then
  echo "redis: installing ${packages[*]} with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  # The tests start servers of their own: the package must not start one.
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${packages[@]}"
  if has_redis && command -v cc >/dev/null; then
    exit 0
  fi
fi

cat >&2 <<TEXT
redis: ${packages[*]} missing. Please install
  on Debian or Ubuntu:  sudo apt-get install redis-server gcc libc6-dev
  on Fedora:            sudo dnf install valkey gcc
  on macOS:             brew install redis
redis-server must be $min_major.$min_minor or later.
TEXT
exit 1
