#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Makes kube-apiserver, etcd and kubectl present in bin/kube/<version>/, where
# the tests look for them (envtest's BinaryAssetsDirectory).
#
# The version is the one go.mod beside this script requires. Ready-made binaries
# are downloaded with setup-envtest where its download site can be reached;
# otherwise the binaries are built from Go modules, which needs nothing but a Go
# module proxy and takes a few minutes on two cores. Every binary appears
# under its final name only once it is complete, so an interrupted run is
# continued by the next one, and a run that finds them all does nothing.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
export GOWORK=off

version="$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {sub(/^v/, "", $2); print $2; exit}' "$here/go.mod")"
dir="$root/bin/kube/$version"
binaries=(etcd kube-apiserver kubectl)

# How long setup-envtest may try before the binaries are built instead.
download_timeout="${KUBE_DOWNLOAD_TIMEOUT:-60}"

missing() {
  local name
  for name in "${binaries[@]}"; do
    [[ -x "$dir/$name" ]] || echo "$name"
  done
}

if [[ -z "$(missing)" ]]; then
  exit 0
fi

mkdir -p "$dir"
tmp="$(mktemp -d "$dir/.partial.XXXXXX")"
trap 'rm -rf "$tmp"' EXIT

# download fetches all three binaries of the same minor release. The patch
# release may differ, since not every one is published for envtest.
download() {
  local from name
  [[ "${KUBE_DOWNLOAD:-true}" == true ]] || return 1
  echo "kube: trying to download Kubernetes ${version%.*} binaries with setup-envtest (at most ${download_timeout}s)"
  from="$(timeout --kill-after=5 "$download_timeout" \
    go tool -modfile="$root/tools/go.mod" setup-envtest use "${version%.*}.x" \
    --bin-dir "$tmp/envtest" --print path 2>"$tmp/download.log")" || return 1
  for name in "${binaries[@]}"; do
    mv "$from/$name" "$dir/$name" || return 1
  done
}

# build links one binary into a temporary name and then moves it into place.
build() {
  local name="$1" package="$2" start=$SECONDS
  local info=k8s.io/component-base/version
  if [[ -x "$dir/$name" ]]; then
    return
  fi
  echo "kube: building $name of Kubernetes $version from Go modules"
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -o "$tmp/$name" -ldflags "-s -w \
    -X $info.gitVersion=v$version \
    -X $info.gitMajor=${version%%.*} \
    -X $info.gitMinor=$(cut -d. -f2 <<<"$version") \
    -X $info.gitTreeState=clean" "$package")
  mv "$tmp/$name" "$dir/$name"
  echo "kube: $name is ready ($((SECONDS - start))s)"
}

if ! download; then
  echo "kube: no download: $(tail -n 1 "$tmp/download.log" 2>/dev/null || echo "switched off")"
  build etcd go.etcd.io/etcd/server/v3
  build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
  build kubectl k8s.io/kubernetes/cmd/kubectl
fi
echo "kube: binaries are in ${dir#"$root"/}"
