# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Paths, names and functions shared by the scripts of the cluster.
# shellcheck disable=SC2034 # used by the scripts that source it
# shellcheck shell=bash

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
export GOWORK=off

# The folder of all files of a running cluster, except the few paths in down.sh. CLUSTER_DIR
# overrides it.
state="$(realpath -m "${CLUSTER_DIR:-$root/bin/cluster/state}")"
socket="$state/containerd.sock"
takedown="CLUSTER_DIR=$state hack/cluster/down.sh"
# Marks the folder as one of a cluster, which may be removed. It contains the boot id of the
# machine at the time of up.sh.
mark="$state/.weir-cluster"
boot=/proc/sys/kernel/random/boot_id
export KUBECONFIG="$state/admin.conf"

# The bridge of the only cluster on the machine. It has the address of the node; its alias
# contains the folder of the cluster's state.
bridge=weir0
node=node1
node_ip=10.250.0.1
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/16
dns_ip=10.96.0.10

# required MODULE DIRECTORY prints the version that the directory's go.mod requires.
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

# redis_version prints the version of the installed redis-server.
redis_version() {
  redis-server --version | sed -n 's/.* v=\([0-9.]*\).*/\1/p'
}

# redis_image prints the path of its image.
redis_image() {
  echo "$images/redis-$(redis_version).tar"
}

# copy_program FILE FOLDER PATH copies a program to a path in the folder of an image, with the
# libraries it is linked to.
copy_program() {
  local library
  mkdir -p "$2/$(dirname "$3")"
  cp -L "$1" "$2/$3"
  while read -r library; do
    mkdir -p "$2$(dirname "$library")"
    cp -L "$library" "$2$library"
  done < <(ldd "$1" | grep -o '/[^ ]*')
}

die() {
  echo "cluster: $*" >&2
  exit 1
}

# need_root ends the script unless root runs it.
need_root() {
  [[ "$(id -u)" == 0 ]] || die "only root can run a kubelet and a container runtime"
}

# of_this_boot reports whether the machine has not been restarted since up.sh. After a restart
# only the folder is left of the cluster; similar processes belong to another one.
of_this_boot() {
  [[ ! -s "$mark" || "$(<"$mark")" == "$(<"$boot")" ]]
}

# alive reports whether the process is alive; one that was not reaped yet is not.
alive() {
  [[ -r "/proc/$1/status" ]] && ! grep -qs '^State:.Z' "/proc/$1/status"
}

# running reports whether the process is alive and belongs to the cluster, since process ids
# are reused. All processes of the cluster have the path of the state in their arguments.
running() {
  alive "$1" && tr '\0' ' ' <"/proc/$1/cmdline" | grep -qF -- "$state/"
}

# alone waits until no other up.sh or down.sh runs. The lock ends with this script. A script
# that calls another one with LOCKED=true has it for both.
alone() {
  [[ -z "${LOCKED:-}" ]] || return 0
  exec {lock}>/run/weir-cluster.lock
  if ! flock --nonblock "$lock"; then
    echo "cluster: waiting for another up.sh or down.sh"
    flock "$lock"
  fi
}

# owner prints the folder of the cluster that has the bridge, nothing without one.
owner() {
  { ip -oneline link show "$bridge" 2>/dev/null || true; } | sed -n 's/.* alias with its state in //p'
}
