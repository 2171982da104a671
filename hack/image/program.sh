#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Makes an image of one Go program of this repository, linked statically and run by a
# user that is not root: program.sh PACKAGE NAME:TAG [FLAG...]
#
# The flags go to the program image, beside this script. It is for GOARCH, with the
# LDFLAGS, and written to bin/images/<program>-linux-<GOARCH>.tar, which `docker load`
# and `ctr images import` take.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export GOWORK=off

package="$1" name="$2"
shift 2
program="$(basename "$package")"
arch="$(go env GOARCH)"
out="$PWD/bin/images/$program-linux-$arch.tar"
tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT

mkdir -p bin/images "$tmp/root"
CGO_ENABLED=0 GOOS=linux GOARCH="$arch" go build -trimpath -ldflags "${LDFLAGS:--s -w}" -o "$tmp/root/$program" "$package"
chmod 755 "$tmp/root/$program"
# The program image runs here, whatever it makes an image for.
(cd hack/image && GOOS='' GOARCH='' go run . -name "$name" -out "$out" -root "$tmp/root" -arch "$arch" -base \
  -entrypoint "/$program" \
  -env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  -env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$@")
echo "image: it is in ${out#"$PWD"/}"
