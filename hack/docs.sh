#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the site of docs/ in bin/docs, with search, and checks its links: a dead page or anchor
# fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/npm.sh vitepress build tools/npm | grep -v -e 'falling back to .txt.' -e '^$'
node tools/npm/check-links.mjs bin/docs
