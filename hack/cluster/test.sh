#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Tests the cluster itself: brings it up, uses it and takes it down, three times, as
# one would, with daemons that were killed, and after half a way up. Whatever of the
# machine is not as before then is shown, and fails the test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# machine prints what a cluster changes; much of it is usually not there, so what it
# returns says nothing. Of the settings of the kernel those are left
# out that change by themselves.
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
  expect "only who may" "no" "$kubectl" auth can-i get secrets --as system:serviceaccount:default:default
}

# down takes it down and compares. It may take a moment until the kernel has let go
# of what lived in the network namespaces of pods.
down() {
  local turn
  "$here/down.sh"
  for ((turn = 0; turn < 50; turn++)); do
    machine >"$tmp/after" || true
    ! cmp -s "$tmp/before" "$tmp/after" || break
    sleep 0.1
  done
  diff "$tmp/before" "$tmp/after" || die "the machine is not as before"
  echo "ok: the machine is as before"
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

echo "===== half a way up"
"$here/up.sh" >"$tmp/up.log" &
until grep -qs "the API server is ready" "$tmp/up.log"; do sleep 0.05; done
kill -9 $!
wait $! 2>/dev/null || true
expect "a half cluster is refused" "down.sh first" "$here/up.sh"
down
