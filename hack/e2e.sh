#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs the end-to-end tests, on the cluster that KUBECONFIG names or, without it, on
# one of their own. Takes flags of go test, as in: hack/e2e.sh -ginkgo.focus standalone
set -euo pipefail

given="${KUBECONFIG:-}"
source "$(dirname "${BASH_SOURCE[0]}")/cluster/lib.sh"
export KUBECONFIG="$given"
if [[ -z "$given" ]]; then
  "$here/build.sh"
  # The tests take down what they brought up, unless they are killed.
  export CLUSTER_DIR="$root/bin/cluster/e2e"
  trap '[[ ! -e "$CLUSTER_DIR" ]] || "$here/down.sh"' EXIT
fi
unset GOWORK
# For specs that need a Redis in the cluster, which up.sh loads.
export REDIS_IMAGE="${REDIS_IMAGE:-localhost/redis:$(redis_version)}"
export PATH="$kube:$helm:$PATH" WEIR_E2E=true
"$root/hack/test.sh" -count=1 -timeout 30m ./test/e2e "$@"
