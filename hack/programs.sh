#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds weir and kubectl-weir in bin/test/, where tests run them as processes. Tests never
# compile: they fail if a program is older than its sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

mkdir -p bin/test
started="$(mktemp)"
trap 'rm -f "$started"' EXIT
go build -buildvcs=false -o bin/test/ ./cmd/weir ./cmd/kubectl-weir
# As old as the start of the build, so that a file that changed during it counts as newer; go
# build leaves a program that is up to date as it is.
touch -r "$started" bin/test/weir bin/test/kubectl-weir
