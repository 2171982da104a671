#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Loads images into the cluster: load.sh IMAGE.tar...
#
# A pod uses an image by its name with imagePullPolicy Never or IfNotPresent. The tar is an
# OCI layout or the output of `docker save`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# -gt 0 ]] || die "usage: load.sh IMAGE.tar..."
need_root
[[ -S $socket ]] || die "no running cluster has its state in $state"
for tar in "$@"; do
  ctr --address "$socket" --namespace k8s.io images import --all-platforms "$tar"
done
