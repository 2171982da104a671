#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs Chromium and npm, unless present, and axe-core, at the version in
# test/console/package-lock.json. The tests of the console drive the browser, and axe-core
# checks the pages for people who use a keyboard, a screen reader or strong contrast.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/../test/console"

# has_chromium accepts the names under which the test looks for the browser.
has_chromium() {
  command -v chromium || command -v chromium-browser || command -v google-chrome
}

# missing sets packages to the missing ones, by their names in Debian.
missing() {
  packages=()
  has_chromium >/dev/null || packages+=(chromium)
  command -v npm >/dev/null || packages+=(npm)
  ((${#packages[@]} > 0))
}

if missing && can_apt; then
  apt_begin browser "${packages[@]}"
  apt_install "${packages[@]}"
fi
if missing; then
  cat >&2 <<TEXT
browser: missing ${packages[*]}. Please install
  on Debian or Ubuntu:  sudo apt-get install chromium npm
  on Fedora:            sudo dnf install chromium npm
  on macOS:             brew install chromium node
TEXT
  exit 1
fi

# npm ci verifies the checksums of the lock file. It runs only if the file has changed.
if ! cmp -s package-lock.json node_modules/.weir-lock.json; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.weir-lock.json
fi
