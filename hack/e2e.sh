#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs the end-to-end tests on the cluster of KUBECONFIG or, without it, on one brought up
# for them. Takes flags of go test, for example: hack/e2e.sh -ginkgo.focus=standalone
set -euo pipefail

given="${KUBECONFIG:-}"
source "$(dirname "${BASH_SOURCE[0]}")/cluster/lib.sh"
export KUBECONFIG="$given"
if [[ -z "$given" ]]; then
  "$here/build.sh"
  # The tests take the cluster down themselves, unless they are killed.
  export CLUSTER_DIR="$root/bin/cluster/e2e"
  trap '[[ ! -e "$CLUSTER_DIR" ]] || "$here/down.sh"' EXIT
fi
ENVOY_GATEWAY_DIR="$("$root/hack/gateway/build.sh")"
export ENVOY_GATEWAY_DIR
unset GOWORK
# The Redis image that up.sh loads, for specs that need a Redis in the cluster.
export REDIS_IMAGE="${REDIS_IMAGE:-localhost/redis:$(redis_version)}"
export PATH="$kube:$helm:$PATH" WEIR_E2E=true
# Pods, Envoy Gateway and Envoy take their time on a busy machine.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=2m
"$root/hack/programs.sh"
# SPECS=all runs every spec, and flags for go test select others.
if [[ "${SPECS:-}" != all && $# == 0 ]]; then
  set -- -ginkgo.label-filter='!all'
fi
"$root/hack/test.sh" ./test/e2e "$@"
