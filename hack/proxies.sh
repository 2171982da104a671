#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Makes nginx, python3 and node (18 or later, which has fetch) present: the tests
# run what docs/integrations shows with them. Does nothing when all are there.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# Where Debian has nginx, which is not on the PATH of everybody.
PATH="$PATH:/usr/sbin"
min_node=18

has_node() {
  command -v node >/dev/null || return 1
  local version
  version="$(node --version)"
  version="${version#v}"
  if ((${version%%.*} >= min_node)); then
    return 0
  fi
  echo "proxies: node $version is too old, $min_node or later is needed"
  return 1
}

# missing sets packages to those that lack, by their names in Debian.
missing() {
  packages=()
  command -v nginx >/dev/null || packages+=(nginx)
  command -v python3 >/dev/null || packages+=(python3)
  has_node || packages+=(nodejs)
  ((${#packages[@]} > 0))
}

missing || exit 0
if can_apt; then
  apt_begin proxies "${packages[@]}"
  apt_install "${packages[@]}"
  missing || exit 0
fi

cat >&2 <<TEXT
proxies: ${packages[*]} missing. Please install
  on Debian or Ubuntu:  sudo apt-get install nginx python3 nodejs
  on Fedora:            sudo dnf install nginx python3 nodejs
  on macOS:             brew install nginx python3 node
node must be $min_node or later.
TEXT
exit 1
