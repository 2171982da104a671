#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Prints the packages with tests, each behind its tier, or the packages of one tier:
#
#   hack/tiers.sh          every tier and package
#   hack/tiers.sh TIER     the packages of the tier
#
# A tier is what `make test-TIER` runs; `unit` is `make test`. It follows from what the tests of
# a package link, directly or not:
#
#   faults     only test/faults, which runs alone
#   console    test/testenv/browser
#   proxies    test/testenv/proxy
#   kube       test/testenv/kube
#   process    test/testenv/process
#   unit       nothing of these. Those that also link nothing of Kubernetes are the tier race, too
#
# The first line that fits decides. test/e2e and test/hostile have no tier: `make e2e` and
# `make hostile` run them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/flags.sh

wanted="${1:-}"
module="$(go list -m)"
# The test binary of a package is listed as PACKAGE.test, with all that it links.
go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... |
  awk -v module="$module" -v wanted="$wanted" '
    $1 !~ /\.test$/ { next }
    {
      package = $1
      sub(/\.test$/, "", package)
      folder = substr(package, length(module) + 2)
      if (folder ~ /^test\/(e2e|hostile)$/) next
      split("", links)
      kubernetes = 0
      for (i = 2; i <= NF; i++) {
        links[$i] = 1
        if ($i ~ /^(k8s\.io|sigs\.k8s\.io)\//) kubernetes = 1
      }
      testenv = module "/test/testenv/"
      if (folder == "test/faults") tier = "faults"
      else if ((testenv "browser") in links) tier = "console"
      else if ((testenv "proxy") in links) tier = "proxies"
      else if ((testenv "kube") in links) tier = "kube"
      else if ((testenv "process") in links) tier = "process"
      else tier = "unit"
      show(tier, folder)
      if (tier == "unit" && !kubernetes) show("race", folder)
    }
    function show(tier, folder) {
      if (wanted == "") print tier, "./" folder
      else if (wanted == tier) print "./" folder
    }'
