#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds an image of one Go program of this repository, statically linked and run as a
# non-root user: program.sh PACKAGE NAME:TAG [FLAG...]
#
# The program is built for GOARCH with LDFLAGS. The flags are the flags of the Go program beside
# this script, which writes the image to bin/images/<program>-linux-<GOARCH>.tar for `docker
# load` and `ctr images import`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source hack/flags.sh
export GOWORK=off

package="$1" name="$2"
shift 2
program="$(basename "$package")"
arch="$(go env GOARCH)"
out="$PWD/bin/images/$program-linux-$arch.tar"
tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT

mkdir -p bin/images "$tmp/root"
GOOS=linux GOARCH="$arch" go build -ldflags "${LDFLAGS:--s -w}" -o "$tmp/root/$program" "$package"
chmod 755 "$tmp/root/$program"
# The image builder runs on this machine, whatever the architecture of the image.
(cd hack/image && GOOS='' GOARCH='' go run . -name "$name" -out "$out" -root "$tmp/root" -arch "$arch" -base \
  -entrypoint "/$program" \
  -env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  -env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$@")
echo "image: written to ${out#"$PWD"/}"
