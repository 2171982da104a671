#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds what the end-to-end tests need of Envoy Gateway in bin/gateway/<version>/, and prints
# the path of that folder:
#
#   envoy-gateway      the program: control plane, certgen Job and shutdown manager
#   envoy-gateway.tar  its image, localhost/envoy-gateway:e2e
#   chart              its chart, with that image
#   envoy.tar          the image of the Envoy that hack/envoy.sh finds, localhost/envoy:e2e
#
# go.mod beside this script pins the version. The build from the Go module takes a few minutes on
# two cores and needs no root. Files get their final names only once they are complete; a run
# that finds them only prints the path.
set -euo pipefail
umask 022 # users other than root read the files in images
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
here="$root/hack/gateway"

module=github.com/envoyproxy/gateway
version="$(required "$module" "$here")"
dir="$root/bin/gateway/$version"
envoy="$("$root/hack/envoy.sh")"

mkdir -p "$dir"
tmp="$(mktemp -d "$dir/.partial.XXXXXX")"
trap 'rm -rf "$tmp"' EXIT

# step FILE FUNCTION makes the file or folder, unless it exists, and prints how long it took.
step() {
  local name="$1" make="$2" start=$SECONDS
  [[ ! -e "$dir/$name" ]] || return 0
  "$make" "$tmp/$name" >&2
  mv "$tmp/$name" "$dir/$name"
  echo "gateway: $name is ready ($((SECONDS - start))s)" >&2
}

program() {
  echo "gateway: building Envoy Gateway $version from its Go module"
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -o "$1" \
    -ldflags "-s -w -X $module/internal/cmd/version.envoyGatewayVersion=v$version" "$module/cmd/envoy-gateway")
}

# chart copies the chart of the module, whose values are a template.
chart() {
  local from
  from="$(cd "$here" && go list -m -f '{{.Dir}}' "$module")/charts/gateway-helm"
  cp -R "$from" "$1"
  chmod -R u+w "$1"
  # shellcheck disable=SC2016 # variable names in the file
  sed -e 's|\${GatewayImage}|localhost/envoy-gateway:e2e|' -e 's|\${GatewayImagePullPolicy}|IfNotPresent|' \
    "$1/values.tmpl.yaml" >"$1/values.yaml"
  rm "$1/values.tmpl.yaml"
  ! grep -F '${' "$1/values.yaml" || die "the values of the chart have another variable"
}

# image NAME OUT FLAG... makes an image of the folder $tmp/root.
image() {
  local name="$1" out="$2"
  shift 2
  (cd "$root/hack/image" && go run . -name "localhost/$name" -out "$out" -root "$tmp/root" -arch "$(go env GOARCH)" \
    -base -env PATH=/usr/local/bin "$@")
  rm -r "$tmp/root"
}

gateway_image() {
  mkdir -p "$tmp/root/usr/local/bin"
  cp "$dir/envoy-gateway" "$tmp/root/usr/local/bin/envoy-gateway"
  image envoy-gateway:e2e "$1" -entrypoint envoy-gateway
}

envoy_image() {
  copy_program "$envoy" "$tmp/root" usr/local/bin/envoy
  image envoy:e2e "$1" -entrypoint envoy
}

# Another Envoy has another image.
if [[ "$(readlink "$dir/envoy" || true)" != "$envoy" || "$envoy" -nt "$dir/envoy.tar" ]]; then
  rm -f "$dir/envoy.tar"
  ln -sfn "$envoy" "$dir/envoy"
fi
step envoy-gateway program
step chart chart
step envoy-gateway.tar gateway_image
step envoy.tar envoy_image
echo "$dir"
