#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds caddy in bin/caddy/<version>/, where the tests of docs/integrations look for it.
#
# go.mod beside this script pins the version. The build from the Go module takes a few
# minutes on two cores. The binary gets its final name only once it is complete; a run that
# finds it does nothing.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
export GOWORK=off

version="$(awk '$1 == "github.com/caddyserver/caddy/v2" && $2 ~ /^v/ {sub(/^v/, "", $2); print $2; exit}' "$here/go.mod")"
dir="$root/bin/caddy/$version"
if [[ -x "$dir/caddy" ]]; then
  exit 0
fi

mkdir -p "$dir"
tmp="$(mktemp -d "$dir/.partial.XXXXXX")"
trap 'rm -rf "$tmp"' EXIT
start=$SECONDS
echo "caddy: building caddy $version from its Go module"
(cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$tmp/caddy" github.com/caddyserver/caddy/v2/cmd/caddy)
mv "$tmp/caddy" "$dir/caddy"
echo "caddy: built in ${dir#"$root"/} ($((SECONDS - start))s)"
