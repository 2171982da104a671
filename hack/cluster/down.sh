#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Takes down the cluster that up.sh brought up, also where up.sh did not come to its
# end or daemons have died, and leaves the machine as it was: processes, mounts,
# interfaces, routes, cgroups, rules of nftables, settings of the kernel, files.
#
# What fails is said and does not keep the rest from being cleaned up.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# stop ends the process that up.sh started under the name.
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
      echo "cluster: $1 did not end by itself"
      kill -9 "$pid"
    fi
  fi
  rm -f "$file"
}

# kill_left_over ends what a containerd that had died left running: its shims, which
# name its socket, and what is in the cgroups of pods.
kill_left_over() {
  local pid
  for pid in $(pgrep -f -- "^[^ ]*containerd-shim.* -address $socket") \
    $(find /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u); do
    kill -9 "$pid" 2>/dev/null && echo "cluster: killed process $pid, which was left over"
  done
}

# unmount takes off what is mounted below the state, the deepest first.
unmount() {
  local mount
  awk -v state="$state/" 'index($5, state) == 1 {print $5}' /proc/self/mountinfo | sort -r | while read -r mount; do
    umount "$mount" || umount --lazy "$mount"
  done
}

# A cgroup can be removed once its processes are reaped, which may take a moment.
remove_cgroups() {
  local cgroup turn
  for cgroup in /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods; do
    for ((turn = 0; turn < 100; turn++)); do
      [[ -d "$cgroup" ]] || break
      find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
      [[ -d "$cgroup" ]] && sleep 0.05
    done
    [[ ! -d "$cgroup" ]] || echo "cluster: $cgroup cannot be removed" >&2
  done
}

# The network namespaces of pods that nobody stopped went with their mounts, and
# their links with them.
remove_network() {
  nft delete table ip kube-proxy 2>/dev/null
  nft delete table ip6 kube-proxy 2>/dev/null
  ip route delete unreachable "$pod_cidr" 2>/dev/null
  ip link delete "$bridge" 2>/dev/null
}

# remove_files removes what cannot be told to be elsewhere.
remove_files() {
  local dir dirs=(/var/lib/cni /var/lib/kubelet)
  if pgrep --exact --runstates D,R,S,T containerd >/dev/null; then
    echo "cluster: another containerd has been started: /run/containerd is left alone" >&2
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
  # What a pod mounts may be anybody's: nothing is removed through a mount.
  ! grep -qF " $state/" /proc/self/mountinfo || die "something is still mounted below $state"
  rm -rf "$state" || die "$state cannot be removed"
}

if [[ ! -e "$state" ]]; then
  echo "cluster: none is up with its state in $state"
  exit 0
fi
[[ -e "$mark" ]] || die "$state is not of a cluster, and is left alone"
need_root
if ! of_this_boot; then
  remove_state
  echo "cluster: it went when the machine was restarted; its folder is removed"
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
echo "cluster: it is down"
