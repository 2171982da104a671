#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Takes down the cluster that up.sh brought up, also after a partial up.sh, or if daemons have
# died or its folder was removed, and restores the machine: processes, mounts, interfaces,
# routes, cgroups, nftables rules, kernel settings, files.
#
# A failing step is reported and does not stop the others.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# stop NAME ends the process that up.sh started under that name.
stop() {
  local file="$state/pid/$1" pid turn
  [[ -e "$file" ]] || return 0
  pid="$(<"$file")"
  if running "$pid"; then
    kill "$pid"
    for ((turn = 0; turn < 200; turn++)); do
      running "$pid" || break
      sleep 0.05
    done
    if running "$pid"; then
      echo "cluster: $1 did not stop on SIGTERM; killing it"
      kill -9 "$pid"
    fi
  fi
  rm -f "$file"
}

# kill_left_over ends processes left by a dead containerd: its shims, whose arguments
# contain its socket, and the processes in the cgroups of pods.
kill_left_over() {
  local pid
  for pid in $(pgrep -f -- "^[^ ]*containerd-shim.* -address $socket") \
    $(find /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u); do
    kill -9 "$pid" 2>/dev/null && echo "cluster: killed leftover process $pid"
  done
}

# unmount unmounts everything below the state, the deepest mount first.
unmount() {
  local mount
  awk -v state="$state/" 'index($5, state) == 1 {print $5}' /proc/self/mountinfo | sort -r | while read -r mount; do
    umount "$mount" || umount --lazy "$mount"
  done
}

# remove_cgroups retries, because a cgroup can be removed only once its processes are reaped.
remove_cgroups() {
  local cgroup turn
  for cgroup in /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods; do
    for ((turn = 0; turn < 100; turn++)); do
      [[ -d "$cgroup" ]] || break
      find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
      [[ -d "$cgroup" ]] && sleep 0.05
    done
    [[ ! -d "$cgroup" ]] || echo "cluster: cannot remove $cgroup" >&2
  done
}

# The network namespaces of pods that were not stopped ended with their mounts, and so did
# their links.
remove_network() {
  nft delete table ip kube-proxy 2>/dev/null
  nft delete table ip6 kube-proxy 2>/dev/null
  ip route delete unreachable "$pod_cidr" 2>/dev/null
  ip link delete "$bridge" 2>/dev/null
}

# remove_files removes the files whose paths are not configurable.
remove_files() {
  local dir dirs=(/var/lib/cni /var/lib/kubelet)
  if pgrep --exact --runstates D,R,S,T containerd >/dev/null; then
    echo "cluster: another containerd has been started: keeping /run/containerd" >&2
  else
    rm -rf /run/containerd/s /run/containerd/runc/k8s.io
    dirs+=(/run/containerd)
  fi
  rm -rf /var/lib/cni/results /var/lib/kubelet/device-plugins /var/log/containers
  for dir in "${dirs[@]}"; do
    [[ ! -d "$dir" ]] || find "$dir" -depth -type d -empty -delete
  done
}

remove_state() {
  # A mount of a pod may hold files of the machine: never remove through a mount.
  ! grep -qF " $state/" /proc/self/mountinfo || die "there are still mounts below $state"
  rm -rf "$state" || die "cannot remove $state"
}

need_root
alone
if [[ ! -e "$state" && "$(owner)" != "$state" ]]; then
  echo "cluster: no cluster has its state in $state"
  exit 0
fi
[[ ! -e "$state" || -e "$mark" ]] || die "$state does not belong to a cluster: keeping it"
if ! of_this_boot; then
  remove_state
  echo "cluster: ended by a restart of the machine; removed its folder"
  exit 0
fi
for name in kubelet kube-proxy kube-scheduler kube-controller-manager; do
  stop "$name"
done
if [[ -e "$state/pid/containerd" ]] && running "$(<"$state/pid/containerd")"; then
  "$programs/rmpods" "$socket"
fi
for name in kube-apiserver etcd containerd; do
  stop "$name"
done
kill_left_over
unmount
remove_cgroups
remove_network
[[ ! -s "$state/sysctl" ]] || sysctl -q -p "$state/sysctl"
remove_files
remove_state
echo "cluster: down"
