#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Gives images to the cluster: load.sh IMAGE.tar...
#
# A pod finds one by its name with imagePullPolicy Never or IfNotPresent. The tar is
# an OCI layout or what `docker save` writes.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# -gt 0 ]] || die "usage: load.sh IMAGE.tar..."
need_root
[[ -S $socket ]] || die "no cluster is up with its state in $state"
for tar in "$@"; do
  ctr --address "$socket" --namespace k8s.io images import --all-platforms "$tar"
done
