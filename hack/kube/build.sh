#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs programs of Kubernetes in bin/kube/<version>/: the named ones, or kube-apiserver,
# etcd and kubectl, which the tests look for there (envtest's BinaryAssetsDirectory).
#
# go.mod beside this script pins the version. setup-envtest downloads those three if its
# download site is reachable; the missing ones are built from Go modules, which needs only a
# Go module proxy and takes a few minutes on two cores. Every binary gets its final name
# only once it is complete, so the next run continues an interrupted one, and a run that
# finds them all does nothing.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
export GOWORK=off

version="$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {sub(/^v/, "", $2); print $2; exit}' "$here/go.mod")"
dir="$root/bin/kube/$version"
envtest=(etcd kube-apiserver kubectl)
binaries=("${@:-${envtest[@]}}")

# Timeout of setup-envtest in seconds; then the binaries are built instead.
download_timeout="${KUBE_DOWNLOAD_TIMEOUT:-60}"

# missing prints the names of the missing binaries.
missing() {
  local name
  for name in "$@"; do
    [[ -x "$dir/$name" ]] || echo "$name"
  done
}

if [[ -z "$(missing "${binaries[@]}")" ]]; then
  exit 0
fi

mkdir -p "$dir"
tmp="$(mktemp -d "$dir/.partial.XXXXXX")"
trap 'rm -rf "$tmp"' EXIT

# download fetches the binaries of envtest, all of the same minor release. The patch release
# may differ, since not every one is published for envtest.
download() {
  local from name
  [[ "${KUBE_DOWNLOAD:-true}" == true ]] || return 1
  echo "kube: trying to download Kubernetes ${version%.*} binaries with setup-envtest (at most ${download_timeout}s)"
  from="$(timeout --kill-after=5 "$download_timeout" \
    go tool -modfile="$root/tools/go.mod" setup-envtest use "${version%.*}.x" \
    --bin-dir "$tmp/envtest" --print path 2>"$tmp/download.log")" || return 1
  for name in "${envtest[@]}"; do
    mv "$from/$name" "$dir/$name" || return 1
  done
}

# build links one binary under a temporary name and then moves it into place.
build() {
  local name="$1" package="k8s.io/kubernetes/cmd/$1" start=$SECONDS
  local info=k8s.io/component-base/version
  [[ $name != etcd ]] || package=go.etcd.io/etcd/server/v3
  echo "kube: building $name of Kubernetes $version from Go modules"
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -o "$tmp/$name" -ldflags "-s -w \
    -X $info.gitVersion=v$version \
    -X $info.gitMajor=${version%%.*} \
    -X $info.gitMinor=$(cut -d. -f2 <<<"$version") \
    -X $info.gitTreeState=clean" "$package")
  mv "$tmp/$name" "$dir/$name"
  echo "kube: $name is ready ($((SECONDS - start))s)"
}

wanted=" ${binaries[*]} "
if [[ -n "$(missing "${envtest[@]}")" && $wanted =~ \ (etcd|kube-apiserver|kubectl)\  ]] && ! download; then
  echo "kube: no download: $(tail -n 1 "$tmp/download.log" 2>/dev/null || echo disabled)"
fi
for name in $(missing "${binaries[@]}"); do
  build "$name"
done
echo "kube: binaries are in ${dir#"$root"/}"
