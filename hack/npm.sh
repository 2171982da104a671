#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the tools of tools/npm in the versions of its lock file, and node with npm if they are
# missing, then runs one of the tools: npm.sh TOOL [ARGUMENT...].
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

min_node=20
modules=tools/npm/node_modules

has_npm() {
  local version
  command -v npm >/dev/null && version="$(node --version)" || return 1
  version="${version#v}"
  ((${version%%.*} >= min_node))
}

if ! has_npm && can_apt; then
  apt_begin npm nodejs npm
  apt_install nodejs npm
fi
has_npm || { echo "npm: please install node $min_node or later, with npm" >&2 && exit 1; }

# The copy is made last, so an interrupted installation is repeated.
if ! cmp --silent tools/npm/package-lock.json "$modules/.weir-lock.json"; then
  echo "npm: installing the tools of tools/npm"
  # Not npm ci: it requires that the lock file lists optional packages of all platforms.
  npm install --prefix tools/npm --no-save --ignore-scripts --no-audit --no-fund --loglevel error
  cp tools/npm/package-lock.json "$modules/.weir-lock.json"
fi

tool="$1"
shift
"$modules/.bin/$tool" "$@"
