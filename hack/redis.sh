#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Makes a redis-server (7.0 or later, which the tests of a cluster need), a
# valkey-server and a C compiler present: the tests start the first two and compile
# the clock they preload into them with the third, which Go's race detector needs
# as well. Does nothing when all are there.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

min_major=7
min_minor=0

has_redis() {
  local version
  command -v redis-server >/dev/null || return 1
  version="$(redis-server --version | sed -n 's/.* v=\([0-9]*\.[0-9]*\).*/\1/p')"
  if ((${version%.*} > min_major || (${version%.*} == min_major && ${version#*.} >= min_minor))); then
    return 0
  fi
  echo "redis: redis-server $version is too old, $min_major.$min_minor or later is needed"
  return 1
}

# missing sets packages to those that lack, by their names in Debian.
missing() {
  packages=()
  has_redis || packages+=(redis-server)
  command -v valkey-server >/dev/null || packages+=(valkey-server)
  command -v cc >/dev/null || packages+=(gcc libc6-dev)
  ((${#packages[@]} > 0))
}

# add_backports makes apt know valkey-server, which Debian 12 has in its backports
# only. They rank below everything else, so no other package changes.
add_backports() {
  local id codename
  id="$(. /etc/os-release && echo "${ID:-}")"
  codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
  if [[ $id != debian || -z $codename ]]; then
    return
  fi
  echo "redis: adding $codename-backports to the sources of apt"
  echo "deb http://deb.debian.org/debian $codename-backports main" \
    >"/etc/apt/sources.list.d/$codename-backports.list"
  apt-get update -qq
}

missing || exit 0
if can_apt; then
  apt_begin redis "${packages[@]}"
  if [[ " ${packages[*]} " == *" valkey-server "* ]] && ! apt-cache show valkey-server >/dev/null 2>&1; then
    add_backports
  fi
  # Without what is only recommended, redis-server stays that of Redis.
  apt_install "${packages[@]}"
  missing || exit 0
fi

cat >&2 <<TEXT
redis: ${packages[*]} missing. Please install
  on Debian or Ubuntu:  sudo apt-get install redis-server valkey-server gcc libc6-dev
                        (valkey-server of Debian 12 is in bookworm-backports)
  on Fedora:            sudo dnf install valkey valkey-compat-redis gcc
  on macOS:             brew install valkey   (which brings a redis-server, too)
redis-server must be $min_major.$min_minor or later.
TEXT
exit 1
