#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Tests the cluster itself: brings it up, uses it and takes it down, four times: normally,
# with killed daemons, after a partial up.sh, and after another cluster has died. Any
# difference of the machine afterwards is printed and fails the test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# machine prints the state that a cluster changes. Much of it may be absent, so its exit status
# has no meaning. Kernel settings that change by themselves are left out.
machine() {
  heading mounts && awk '{print $5}' /proc/self/mountinfo | sort
  heading links && ip -brief link
  heading routes && ip route show table all
  heading rules && nft list ruleset
  heading cgroups && find /sys/fs/cgroup -type d -path '*kubepods*'
  heading processes && pgrep --full --list-full --runstates D,R,S,T -- "$state/" | cut -d' ' -f2-
  heading folders && ls -d /run/{containerd,netns} /var/lib/{cni,kubelet} /var/lib/containerd/* \
    /var/log/{pods,containers} /etc/{kubernetes,cni} 2>/dev/null
  heading settings && sysctl --all 2>/dev/null | grep -E '^(kernel\.panic|net\.|vm\.)' |
    grep -vE 'conntrack_count|neigh|\.conf\.'
}

heading() { echo "# $1"; }

expect() {
  local what="$1" want="$2" got
  shift 2
  got="$("$@" 2>&1)" || true
  if [[ "$got" != *"$want"* ]]; then
    die "$what: wanted '$want', got: $got"
  fi
  echo "ok: $what"
}

use() {
  local kubectl="$kube/kubectl"
  "$kubectl" apply -f - >/dev/null <<YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: redis}
spec:
  selector: {matchLabels: {app: redis}}
  template:
    metadata: {labels: {app: redis}}
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: redis
        image: localhost/redis:$(redis_version)
        imagePullPolicy: Never
        readinessProbe: {exec: {command: [redis-cli, ping]}, periodSeconds: 1}
        securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        resources: {limits: {memory: 64Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: redis}
spec: {selector: {app: redis}, ports: [{port: 6379}]}
YAML
  expect "a pod is ready" "successfully rolled out" "$kubectl" rollout status deployment/redis --timeout=60s
  expect "exec, DNS and a Service with the pod itself behind it" PONG \
    "$kubectl" exec deployment/redis -- redis-cli -h redis.default.svc ping
  expect "logs" "Ready to accept connections" "$kubectl" logs deployment/redis
  expect "helm" "NAME" "$helm/helm" list --all-namespaces
  expect "RBAC denies by default" "no" "$kubectl" auth can-i get secrets --as system:serviceaccount:default:default
}

# down takes the cluster down and compares the machine. The kernel may release the network
# namespaces of pods with a delay.
down() {
  local turn
  "$here/down.sh"
  for ((turn = 0; turn < 50; turn++)); do
    machine >"$tmp/after" || true
    ! cmp -s "$tmp/before" "$tmp/after" || break
    sleep 0.1
  done
  diff "$tmp/before" "$tmp/after" || die "the machine was not restored"
  echo "ok: the machine was restored"
}

tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT
"$here/build.sh"
[[ ! -e "$state" ]] || die "a cluster is up: take it down first"
machine >"$tmp/before" || true

echo "===== up, use, down"
"$here/up.sh"
use
down

echo "===== daemons are killed"
"$here/up.sh"
use
for name in containerd kubelet kube-proxy etcd; do
  kill -9 "$(<"$state/pid/$name")"
done
down

echo "===== partial up.sh"
"$here/up.sh" >"$tmp/up.log" &
until grep -qs "the API server is ready" "$tmp/up.log"; do sleep 0.05; done
kill -9 $!
wait $! 2>/dev/null || true
expect "up.sh fails on a partial cluster" "down.sh first" "$here/up.sh"
down

echo "===== another cluster has died"
other="$state-other"
CLUSTER_DIR="$other" "$here/up.sh"
expect "up.sh fails beside another cluster" "another cluster is up" "$here/up.sh"
pkill -9 --full -- "$other/"
"$here/up.sh"
[[ ! -e "$other" ]] || die "$other still exists"
use
down
