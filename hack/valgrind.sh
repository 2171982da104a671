#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs valgrind, unless it is present. `make bench-check` counts instructions with it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

! command -v valgrind >/dev/null || exit 0
if can_apt; then
  apt_begin valgrind valgrind
  apt_install valgrind
  exit 0
fi

cat >&2 <<TEXT
valgrind: missing valgrind. Please install
  on Debian or Ubuntu:  sudo apt-get install valgrind
  on Fedora:            sudo dnf install valgrind
TEXT
exit 1
