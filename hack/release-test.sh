#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Tests the files of a release: builds a program for every platform, packs archives of it and
# verifies them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh
export GOWORK=off

mkdir -p bin/test/release
for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64; do
  GOOS="${platform%-*}" GOARCH="${platform#*-}" \
    go build -C hack/image -o "../../bin/test/release/$platform" .
done
go test -C hack/image -vet=off -count=1 -tags archives ./release
