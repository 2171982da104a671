#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs redis-server (7.0 or later, which the tests of Redis Cluster need), redis-benchmark, a C
# compiler, and with `redis.sh valkey` also valkey-server, unless they are present. The tests start
# the servers and preload a clock into them, which the compiler builds; Go's race detector
# needs the compiler as well. `make bench-compare` runs redis-benchmark.
#
# Where it cannot install the compiler, it warns: tests without a clock in the server still run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

min_major=7
min_minor=0
wanted=" $* "

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

# missing sets packages to the missing ones, by their names in Debian.
missing() {
  packages=()
  has_redis || packages+=(redis-server)
  [[ $wanted != *" valkey "* ]] || command -v valkey-server >/dev/null || packages+=(valkey-server)
  command -v redis-benchmark >/dev/null || packages+=(redis-tools)
  command -v cc >/dev/null || packages+=(gcc libc6-dev)
  ((${#packages[@]} > 0))
}

# debian_mirror CODENAME prints the URI of the Debian archive that the machine's own apt
# sources use for that release. apt reads the sources, in the one-line and the deb822
# format, and excludes -security and -updates by their codenames.
debian_mirror() {
  # shellcheck disable=SC2016 # apt expands $(REPO_URI)
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $1" |
    sed -n 1p
}

# add_backports adds the backports of Debian 12 to apt's sources, the only place where it
# has valkey-server. Backports have the lowest priority, so no other package changes.
add_backports() {
  local id codename mirror
  id="$(. /etc/os-release && echo "${ID:-}")"
  codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
  if [[ $id != debian || -z $codename ]]; then
    return
  fi
  mirror="$(debian_mirror "$codename")"
  if [[ -z $mirror ]]; then
    echo "redis: no source of apt is a Debian archive of $codename: not adding $codename-backports"
    return
  fi
  echo "redis: adding $codename-backports from $mirror to the sources of apt"
  echo "deb $mirror $codename-backports main" >"/etc/apt/sources.list.d/$codename-backports.list"
  apt-get update -qq
}

missing || exit 0
if can_apt; then
  apt_begin redis "${packages[@]}"
  if [[ " ${packages[*]} " == *" valkey-server "* ]] && ! apt-cache show valkey-server >/dev/null 2>&1; then
    add_backports
  fi
  # No recommended packages, so that redis-server stays the program of Redis.
  apt_install "${packages[@]}"
  missing || exit 0
fi

if [[ "${packages[*]}" == "gcc libc6-dev" ]]; then
  echo "redis: no C compiler: the tests that need a clock in the server will not run" >&2
  exit 0
fi
cat >&2 <<TEXT
redis: missing ${packages[*]}. Please install
  on Debian or Ubuntu:  sudo apt-get install redis-server redis-tools gcc libc6-dev, and
                        valkey-server for \`make test-all\` (on Debian 12 in bookworm-backports)
  on Fedora:            sudo dnf install valkey valkey-compat-redis gcc
  on macOS:             brew install valkey   (which brings a redis-server, too)
redis-server must be $min_major.$min_minor or later.
TEXT
exit 1
