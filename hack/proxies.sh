#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs nginx, python3 and node (18 or later, which has fetch), unless all are present.
# The tests run the examples of docs/integrations with them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# Debian installs nginx here, which is not on every PATH.
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

# missing sets packages to the missing ones, by their names in Debian.
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
proxies: missing ${packages[*]}. Please install
  on Debian or Ubuntu:  sudo apt-get install nginx python3 nodejs
  on Fedora:            sudo dnf install nginx python3 nodejs
  on macOS:             brew install nginx python3 node
node must be $min_node or later.
TEXT
exit 1
