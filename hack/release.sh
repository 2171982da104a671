#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the files of a release in bin/release/<version> and verifies them; no registry is
# needed: release.sh [VERSION]. The default is the version of the chart. The tree must be
# clean, because the image names the commit.
#
# `release.sh verify VERSION FOLDER` verifies the files of a release, for example downloaded
# ones. docs/release.md describes the files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOWORK=off

repository=ghcr.io/weir-dev/weir

die() {
  echo "release: $*" >&2
  exit 1
}

release() {
  (cd hack/image && go run ./release "$@")
}

# helm runs the pinned helm.
helm() {
  local version
  version="$(awk '$1 == "helm.sh/helm/v3" {sub(/^v/, "", $2); print $2}' hack/cluster/go.mod)"
  "bin/helm/$version/helm" "$@"
}

# verify_chart FILE VERSION renders the archive and looks for the image of the version.
verify_chart() {
  helm lint --strict "$1" --set redis.url=redis://redis:6379 >/dev/null
  helm template weir "$1" --kube-version 1.31 --set redis.url=redis://redis:6379 |
    grep -qF "image: \"$repository:$2\"" || die "$1 does not run $repository:$2"
}

verify() {
  local version="$1" dir
  dir="$(cd "$2" && pwd)"
  (cd "$dir" && sha256sum --check --quiet --strict SHA256SUMS)
  release verify -version "$version" "$dir"
  verify_chart "$dir/weir-$version.tgz" "$version"
}

# pack_plugins VERSION FOLDER builds kubectl weir for the machines of operators, and its manifest
# for krew.
pack_plugins() {
  local tmp platform contents
  tmp="$(mktemp -d)"
  install -m 755 cmd/kubectl-weir/kubectl_complete-weir LICENSE "$tmp"
  for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64; do
    contents=(kubectl-weir kubectl_complete-weir LICENSE)
    [[ $platform != windows-* ]] || contents=(kubectl-weir.exe LICENSE)
    GOOS="${platform%-*}" GOARCH="${platform#*-}" make --no-print-directory kubectl-weir VERSION="$1" PLUGIN="$tmp/${contents[0]}"
    tar --create --directory "$tmp" --owner 0 --group 0 --numeric-owner --mode 755 --mtime "@$(git log -1 --format=%ct)" \
      "${contents[@]}" | gzip --no-name >"$2/kubectl-weir-$1-$platform.tar.gz"
  done
  rm -r "$tmp"
  release krew -version "$1" "$2"
}

# write_notes VERSION FILE writes the entry of the version in the changelog, with links that work elsewhere.
write_notes() {
  awk -v heading="## $1" '$0 == heading {found = 1; next} /^## / {found = 0} found' CHANGELOG.md |
    sed "s#](docs/#](https://github.com/weir-dev/weir/blob/v$1/docs/#g" >"$2"
  grep -q '[^[:space:]]' "$2" || die "CHANGELOG.md has no entry $1"
}

build() {
  local version="$1" out="$PWD/bin/release/$1" arch archives=()
  [[ "$version" =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || die "$version: want a version such as 1.2.3"
  [[ -z "$(git status --porcelain)" ]] || die "the tree has changes that are not committed"
  rm -rf "$out"
  mkdir -p "$out"
  write_notes "$version" "$out.md"
  for arch in amd64 arm64; do
    GOARCH="$arch" make --no-print-directory image IMAGE="$repository:$version" VERSION="$version"
    archives+=("$PWD/bin/images/weir-linux-$arch.tar")
  done
  release pack -version "$version" -repository "$repository" -out "$out" "${archives[@]}"
  for arch in amd64 arm64; do
    go tool -modfile=tools/go.mod cyclonedx-gomod bin -json -noserial -notimestamp -short-purls -std \
      -version "v$version" -output "$out/weir-$version-linux-$arch.cdx.json" "$out/weir-$version-linux-$arch"
  done
  pack_plugins "$version" "$out"
  helm package charts/weir --version "$version" --app-version "$version" --destination "$out"
  (cd "$out" && sha256sum -- * >SHA256SUMS)
  verify "$version" "$out"
  echo "release: written to ${out#"$PWD"/}"
}

hack/cluster/build.sh helm
if [[ "${1:-}" == verify ]]; then
  (($# == 3)) || die "want verify VERSION FOLDER"
  verify "$2" "$3"
else
  build "${1:-$(awk '$1 == "version:" {print $2}' charts/weir/Chart.yaml)}"
fi
