# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts that install programs for the tests.
# shellcheck shell=bash

# can_apt reports whether this user can install packages.
can_apt() {
  [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null
}

# apt_begin NAME PACKAGE... prepares the installation of the packages, for the script NAME. Other
# scripts that install packages wait until this one has ended.
# No package may start a server, because the tests start their own.
apt_begin() {
  echo "$1: installing ${*:2} with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  exec {apt_lock}>/run/weir-apt.lock
  flock "$apt_lock"
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt-get update -qq
}

# apt_install installs the packages, without recommended ones.
apt_install() {
  apt-get install -y -qq --no-install-recommends "$@"
}
