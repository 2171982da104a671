# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts that make programs present for the tests.
# shellcheck shell=bash

# can_apt says whether packages can be installed here.
can_apt() {
  [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null
}

# apt_begin gets ready to install the packages, for the script of that name. The
# tests start servers of their own: no package may start one.
apt_begin() {
  echo "$1: installing ${*:2} with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt-get update -qq
}

# apt_install installs the packages, without what they only recommend.
apt_install() {
  apt-get install -y -qq --no-install-recommends "$@"
}
