#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the site of docs/ in bin/docs, with search, and checks its links: a dead page or anchor
# fails.
#
#   hack/docs.sh                  the site of the checkout
#   hack/docs.sh VERSION FOLDER   the site of a release in FOLDER/VERSION, and the list of all versions in FOLDER. FOLDER
#                                 is what a web server serves at DOCS_BASE (default /)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# bin may be a link, and VitePress compares real paths.
mkdir -p bin
bin="$(cd bin && pwd -P)"
export DOCS_VERSION="${1:-}" DOCS_OUT="$bin/docs" DOCS_PAGES="$bin/docs-pages"
export DOCS_BASE="${DOCS_BASE:-/}"
if [[ -n $DOCS_VERSION ]]; then
  [[ $DOCS_VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "docs: $DOCS_VERSION is not a version" >&2 && exit 2; }
  : "${2:?docs: name the folder of the site}"
  mkdir -p "$2"
  DOCS_OUT="$(cd "$2" && pwd)/$DOCS_VERSION"
  DOCS_BASE="${DOCS_BASE%/}/$DOCS_VERSION/"
fi

hack/npm.sh redocly --version >/dev/null # installs Node
node --test tools/npm/site.test.mjs >"bin/docs-test.log" || { cat "bin/docs-test.log" && exit 1; }
node tools/npm/stage.mjs "$DOCS_PAGES"
hack/npm.sh vitepress build tools/npm | grep -v -e 'falling back to .txt.' -e '^$'
node tools/npm/check-links.mjs "$DOCS_OUT" "$DOCS_BASE"
words="$(git ls-files -z '*.md' ':!docs/reference' ':!docs/spec/fields*' ':!charts/weir/README.md' | xargs -0 cat | tr -s '[:space:]' '\n' | grep -c '[[:alnum:]]')"
echo "$words words on pages that are not generated"
if [[ -n $DOCS_VERSION ]]; then
  node tools/npm/versions.mjs "$2"
fi
