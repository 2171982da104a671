#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds and installs the programs of a cluster: Kubernetes in bin/kube/<version>/, helm in
# bin/helm/<version>/, CoreDNS and rmpods in bin/cluster/, images in bin/images/, and the
# container runtime from packages.
#
# hack/kube/go.mod and go.mod beside this script pin the versions. Programs are built from Go
# modules and get their final name only once they are complete, so the next run continues an
# interrupted one, and a run that finds them all does nothing.
#
# `build.sh helm` builds only helm, which needs no root.
set -euo pipefail
umask 022 # users other than root read the files in images
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$here/../apt.sh"

# packages sets packages to the missing ones, by their names in Debian.
packages() {
  packages=()
  command -v containerd >/dev/null && command -v ctr >/dev/null || packages+=(containerd)
  command -v runc >/dev/null || packages+=(runc)
  [[ -x /usr/lib/cni/ptp && -x /usr/lib/cni/host-local ]] || packages+=(containernetworking-plugins)
  command -v nft >/dev/null || packages+=(nftables)
  command -v ip >/dev/null || packages+=(iproute2)
  command -v sysctl >/dev/null || packages+=(procps)
  ((${#packages[@]} > 0))
}

# In a subshell: apt_begin sets a trap of its own.
install_packages() (
  packages || return 0
  can_apt || die "missing ${packages[*]}: please install them, as root on Debian or Ubuntu with apt-get install"
  apt_begin cluster "${packages[@]}"
  apt_install "${packages[@]}"
  ! packages || die "${packages[*]} still missing"
)

# go_build DIRECTORY NAME PACKAGE builds a program of the module beside this script.
go_build() {
  local dir="$1" name="$2" package="$3" start=$SECONDS
  [[ ! -x "$dir/$name" ]] || return 0
  echo "cluster: building $name from its Go module"
  mkdir -p "$dir"
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$tmp/$name" "$package")
  mv "$tmp/$name" "$dir/$name"
  echo "cluster: $name is ready ($((SECONDS - start))s)"
}

# image NAME:TAG OUT FUNCTION FLAG... builds the image OUT, unless it exists, from a folder
# that FUNCTION fills.
image() {
  local name="$1" out="$2" build_root="$3"
  shift 3
  [[ ! -e "$out" ]] || return 0
  mkdir -p "$images"
  rm -rf "$tmp/root" && mkdir "$tmp/root"
  "$build_root" "$tmp/root"
  (cd "$here/../image" && go run . -name "localhost/$name" -out "$out" -root "$tmp/root" -arch "$(go env GOARCH)" "$@") >/dev/null
  echo "cluster: image localhost/$name is ready"
}

pause_root() {
  cc -Os -static -s -o "$1/pause" "$here/pause.c"
}

coredns_root() {
  cp "$programs/coredns" "$1/coredns"
}

# The installed redis-server.
redis_root() {
  local program
  mkdir -p "$1/data"
  chmod 1777 "$1/data"
  for program in redis-server redis-cli; do
    copy_program "$(command -v "$program")" "$1" "usr/bin/$program"
  done
}

tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT

go_build "$helm" helm helm.sh/helm/v3/cmd/helm
case "${*:-all}" in
  all) ;;
  helm) exit 0 ;;
  *) die "usage: build.sh [helm]" ;;
esac
"$here/../redis.sh"
install_packages
"$here/../kube/build.sh" etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl kubeadm
go_build "$programs" coredns ./coredns
go_build "$programs" rmpods ./rmpods
image "pause:$pause_version" "$pause_image" pause_root -entrypoint /pause
image "coredns:$coredns_version" "$coredns_image" coredns_root -entrypoint /coredns
image "redis:$(redis_version)" "$(redis_image)" redis_root -base -user 999:999 -workdir /data -env PATH=/usr/bin \
  -entrypoint redis-server -cmd --save -cmd "" -cmd --protected-mode -cmd no
