#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs nginx, HAProxy, python3, node (18 or later, which has fetch), java (17 or later), and Debian's
# packages of Express and FastAPI, unless all are present. The tests run the examples of
# docs/integrations with them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# Debian installs nginx and HAProxy here, which is not on every PATH.
PATH="$PATH:/usr/sbin"
min_node=18
min_java=17
# The tests use these, too.
python=/usr/bin/python3
node_path=/usr/share/nodejs

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

has_java() {
  local version
  version="$(java -XshowSettings:properties -version 2>&1 | awk '$1 == "java.specification.version" {print $3}')"
  [[ $version =~ ^[0-9]+$ ]] && ((version >= min_java))
}

# missing sets packages to the missing ones, by their names in Debian.
missing() {
  packages=()
  command -v nginx >/dev/null || packages+=(nginx)
  command -v haproxy >/dev/null || packages+=(haproxy)
  command -v python3 >/dev/null || packages+=(python3)
  has_node || packages+=(nodejs)
  NODE_PATH="$node_path" node -e 'require("express")' 2>/dev/null || packages+=(node-express)
  "$python" -c 'import fastapi, httpx, uvicorn' 2>/dev/null || packages+=(python3-fastapi python3-httpx python3-uvicorn)
  has_java || packages+=(default-jdk-headless)
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
  on Debian or Ubuntu:  sudo apt-get install ${packages[*]}
  elsewhere:            nginx, haproxy, node, java, $python with fastapi, httpx and uvicorn,
                        and express in $node_path
node must be $min_node or later, java $min_java or later.
TEXT
exit 1
