# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of the cluster share: where things are and how they are called.
# shellcheck disable=SC2034 # used by those that source it
# shellcheck shell=bash

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
export GOWORK=off

# Everything a running cluster writes, but for the few paths that down.sh names.
# CLUSTER_DIR may name another folder.
state="$(realpath -m "${CLUSTER_DIR:-$root/bin/cluster/state}")"
socket="$state/containerd.sock"
takedown="CLUSTER_DIR=$state hack/cluster/down.sh"
# Says that the folder is of a cluster, and may be removed with all that is in it. In it
# is which boot of the machine it was brought up in.
mark="$state/.weir-cluster"
boot=/proc/sys/kernel/random/boot_id
export KUBECONFIG="$state/admin.conf"

# There is one cluster to a machine: this bridge is there while it is, and carries
# the address of the node. Its alias says where the state of the cluster is.
bridge=weir0
node=node1
node_ip=10.250.0.1
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/16
dns_ip=10.96.0.10

# required MODULE DIRECTORY prints the version that the go.mod there requires.
required() {
  awk -v module="$1" '{sub(/^require /, "")} $1 == module && $2 ~ /^v/ {sub(/^v/, "", $2); print $2; exit}' "$2/go.mod"
}

# sum FILE... prints a short name for the content of the files.
sum() {
  cat "$@" | sha256sum | cut -c1-8
}

kube_version="$(required k8s.io/kubernetes "$root/hack/kube")"
helm_version="$(required helm.sh/helm/v3 "$here")"
coredns_version="$(required github.com/coredns/coredns "$here")"
pause_version=1

kube="$root/bin/kube/$kube_version"
helm="$root/bin/helm/$helm_version"
programs="$root/bin/cluster/$(sum "$here/go.sum" "$here"/*/main.go)"
images="$root/bin/images"

pause_image="$images/pause-$pause_version-$(sum "$here/pause.c").tar"
coredns_image="$images/coredns-$coredns_version-$(sum "$here/go.sum" "$here/coredns/main.go").tar"

# redis_version prints which redis-server is installed.
redis_version() {
  redis-server --version | sed -n 's/.* v=\([0-9.]*\).*/\1/p'
}

# redis_image prints where its image is.
redis_image() {
  echo "$images/redis-$(redis_version).tar"
}

die() {
  echo "cluster: $*" >&2
  exit 1
}

# need_root ends what cannot be done by anybody else.
need_root() {
  [[ "$(id -u)" == 0 ]] || die "only root can run a kubelet and a container runtime"
}

# of_this_boot says whether the machine is still as up.sh left it. After a restart
# nothing of the cluster is there but its folder, and what looks like it is another's.
of_this_boot() {
  [[ ! -s "$mark" || "$(<"$mark")" == "$(<"$boot")" ]]
}

# alive says whether the process lives; one that was not reaped yet does not.
alive() {
  [[ -r "/proc/$1/status" ]] && ! grep -qs '^State:.Z' "/proc/$1/status"
}

# running says whether the process lives and is one that the cluster started, since
# numbers of processes are given out again. All of ours are told where the state is.
running() {
  alive "$1" && tr '\0' ' ' <"/proc/$1/cmdline" | grep -qF -- "$state/"
}
