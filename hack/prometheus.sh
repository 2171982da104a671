#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs prometheus with promtool, unless both are present. The tests run the alerts of the
# chart in promtool.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

missing() {
  ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null
}

missing || exit 0
if can_apt; then
  apt_begin prometheus prometheus
  apt_install prometheus
  missing || exit 0
fi

cat >&2 <<TEXT
prometheus: missing prometheus or promtool. Please install
  on Debian or Ubuntu:  sudo apt-get install prometheus
  on Fedora:            sudo dnf install golang-github-prometheus
  on macOS:             brew install prometheus
TEXT
exit 1
