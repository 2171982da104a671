#!/usr/bin/env bash
# Copyright The Weir Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Brings up a real Kubernetes cluster of one node on this machine, without systemd, an
# image registry or the internet, and prints the KUBECONFIG line. Builds missing programs
# first. down.sh takes the cluster down.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# check_machine fails on a machine where down.sh would remove files of other software.
check_machine() {
  local other
  if [[ -e "$state" ]]; then
    if [[ -e "$state/up" ]] && "$kube/kubectl" get --raw /readyz >/dev/null 2>&1; then
      echo "cluster: already up"
      invite
      exit 0
    fi
    [[ -e "$mark" ]] || die "$state exists and does not belong to a cluster"
    die "$state belongs to a cluster that failed to start or has died: run $takedown first"
  fi
  other="$(owner)"
  if [[ -n "$other" ]]; then
    if pgrep --full --runstates D,R,S,T -- "$other/" >/dev/null; then
      die "another cluster is up, with its state in $other"
    fi
    echo "cluster: taking down a cluster without processes, with its state in $other"
    CLUSTER_DIR="$other" LOCKED=true "$here/down.sh"
  fi
  for other in containerd dockerd kubelet k3s crio; do
    # A process that was not reaped yet is dead.
    if pgrep --exact --runstates D,R,S,T "$other" >/dev/null; then
      die "$other runs on this machine and uses the same paths as the cluster: stop it first"
    fi
  done
  # Socket paths have a short maximum: the longest one here adds about forty characters.
  [[ $state =~ ^[^[:space:]]{2,60}$ ]] || die "the path $state is too long for sockets, or has spaces: set CLUSTER_DIR to another path"
}

# report prints a completed step with the time since the start.
report() {
  local ms=$((${EPOCHREALTIME/[.,]/} / 1000 - started))
  printf '%3d.%03ds  %s\n' $((ms / 1000)) $((ms % 1000)) "$*"
}

invite() {
  echo "export KUBECONFIG=$KUBECONFIG PATH=$kube:$helm:\$PATH"
}

# start NAME COMMAND... starts a process that outlives this script, without its lock.
start() {
  local name="$1"
  shift
  setsid "$@" >"$state/log/$name.log" 2>&1 </dev/null {lock}>&- &
  echo $! >"$state/pid/$name"
}

# await SECONDS WHAT COMMAND... repeats the command until it succeeds.
await() {
  local end=$((SECONDS + $1)) what="$2" pid
  shift 2
  until "$@" >/dev/null 2>&1; do
    for pid in "$state"/pid/*; do
      alive "$(<"$pid")" || ended "$(basename "$pid")"
    done
    ((SECONDS < end)) || die "timeout waiting for: $what (logs are in $state/log; take it down with: $takedown)"
    sleep 0.1
  done
  report "$what"
}

ended() {
  tail -n 5 "$state/log/$1.log" >&2
  die "$1 ended (logs are in $state/log; take it down with: $takedown)"
}

# network creates an address for the node that is not the machine's own, and routes
# between pods. The bridge is the lock: only one cluster can create it.
network() {
  mkdir -p "$(dirname "$state")"
  mkdir "$state"
  cat "$boot" >"$mark"
  if ! ip link add "$bridge" type bridge; then
    rm -r "$state"
    die "cannot create bridge $bridge"
  fi
  ip link set "$bridge" alias "with its state in $state" up
  mkdir "$state"/{log,pid,cni,kubelet,podlogs}
  # Saved for down.sh; the kubelet changes the last three.
  sysctl net.ipv4.ip_forward kernel.panic kernel.panic_on_oops vm.overcommit_memory >"$state/sysctl"
  sysctl -qw net.ipv4.ip_forward=1
  ip address add "$node_ip/32" dev "$bridge"
  # Packets to a deleted pod fail at once, and no packet for the cluster leaves the machine.
  ip route add unreachable "$pod_cidr"
  ip route add "$service_cidr" dev "$bridge"
  cat >"$state/cni/10-ptp.conflist" <<JSON
{"cniVersion": "1.0.0", "name": "weir", "plugins": [{
  "type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "$state/cni/addresses", "ranges": [[{"subnet": "$pod_cidr"}]],
           "routes": [{"dst": "$service_cidr"}, {"dst": "$node_ip/32"}]}
}]}
JSON
}

# credentials creates keys, certificates and kubeconfigs, with the phases of kubeadm that
# need neither a network nor systemd.
credentials() {
  local log="$state/log/kubeadm.log"
  cat >"$state/kubeadm.yaml" <<YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $node_ip, bindPort: 6443}
nodeRegistration: {name: $node, criSocket: "unix://$socket"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$kube_version
certificatesDir: $state/pki
networking: {serviceSubnet: $service_cidr, dnsDomain: cluster.local}
encryptionAlgorithm: ECDSA-P256
YAML
  "$kube/kubeadm" init phase certs all --config "$state/kubeadm.yaml" >"$log"
  "$kube/kubeadm" init phase kubeconfig all --config "$state/kubeadm.yaml" --kubeconfig-dir "$state" >>"$log"
  "$kube/kubeadm" kubeconfig user --client-name system:kube-proxy --config "$state/kubeadm.yaml" \
    >"$state/kube-proxy.conf" 2>>"$log"
  report "certificates are made"
}

# restrict_oom_score_adj is for machines where even root may not lower an OOM score.
start_containerd() {
  cat >"$state/containerd.toml" <<TOML
version = 2
root = "$state/containerd"
state = "$state/containerd-state"
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:$pause_version"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$state/cni"
[plugins."io.containerd.internal.v1.opt"]
  path = "$state/containerd-opt"
TOML
  start containerd containerd --config "$state/containerd.toml"
}

start_etcd() {
  local client=http://127.0.0.1:12379 peer=http://127.0.0.1:12380
  start etcd "$kube/etcd" --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
}

start_apiserver() {
  local pki="$state/pki"
  start kube-apiserver "$kube/kube-apiserver" --etcd-servers http://127.0.0.1:12379 \
    --bind-address "$node_ip" --advertise-address "$node_ip" --secure-port 6443 \
    --service-cluster-ip-range "$service_cidr" \
    --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
    --client-ca-file "$pki/ca.crt" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$pki/sa.pub" --service-account-signing-key-file "$pki/sa.key" \
    --kubelet-client-certificate "$pki/apiserver-kubelet-client.crt" \
    --kubelet-client-key "$pki/apiserver-kubelet-client.key" \
    --kubelet-preferred-address-types InternalIP \
    --requestheader-client-ca-file "$pki/front-proxy-ca.crt" \
    --requestheader-allowed-names front-proxy-client \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$pki/front-proxy-client.crt" --proxy-client-key-file "$pki/front-proxy-client.key"
}

# The bindings that `kubeadm init` would create: administrators to cluster-admin, and the
# API server to the kubelet, for exec and logs.
bind_roles() {
  local kubectl=("$kube/kubectl" --kubeconfig "$state/super-admin.conf")
  "${kubectl[@]}" create clusterrolebinding kubeadm:cluster-admins \
    --clusterrole cluster-admin --group kubeadm:cluster-admins
  "${kubectl[@]}" create clusterrolebinding apiserver-kubelet \
    --clusterrole system:kubelet-api-admin --user kube-apiserver-kubelet-client
}

# With the default of 20 requests a second the controllers take 5 s to start.
start_controllers() {
  local pki="$state/pki" conf="$state/controller-manager.conf"
  # There is one of each, and no supervisor restarts it: leader election would only end
  # them when the API server is slow.
  start kube-controller-manager "$kube/kube-controller-manager" --bind-address 127.0.0.1 --leader-elect=false \
    --kubeconfig "$conf" --authentication-kubeconfig "$conf" --authorization-kubeconfig "$conf" \
    --client-ca-file "$pki/ca.crt" --requestheader-client-ca-file "$pki/front-proxy-ca.crt" \
    --root-ca-file "$pki/ca.crt" --cluster-signing-cert-file "$pki/ca.crt" --cluster-signing-key-file "$pki/ca.key" \
    --flex-volume-plugin-dir "$state/volumeplugins" \
    --service-account-private-key-file "$pki/sa.key" --use-service-account-credentials \
    --kube-api-qps 500 --kube-api-burst 1000
  conf="$state/scheduler.conf"
  start kube-scheduler "$kube/kube-scheduler" --bind-address 127.0.0.1 --leader-elect=false \
    --kubeconfig "$conf" --authentication-kubeconfig "$conf" --authorization-kubeconfig "$conf"
}

# Settings that root may apply on every machine: no OOM score is lowered, no file limit
# raised. Image garbage collection is off, because an image could not be pulled again.
start_kubelet() {
  cat >"$state/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node_ip
authentication: {x509: {clientCAFile: $state/pki/ca.crt}, webhook: {enabled: true}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$socket
cgroupDriver: cgroupfs
failCgroupV1: false
oomScoreAdj: 0
maxOpenFiles: 20000
makeIPTablesUtilChains: false
clusterDNS: [$dns_ip]
clusterDomain: cluster.local
podLogsDir: $state/podlogs
volumePluginDir: $state/volumeplugins
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
YAML
  start kubelet "$kube/kubelet" --config "$state/kubelet.yaml" --kubeconfig "$state/kubelet.conf" \
    --hostname-override "$node" --node-ip "$node_ip" --root-dir "$state/kubelet" --cert-dir "$state/kubelet/pki"
}

# With the default minSyncPeriod a Service lags its pods by up to a second. The conntrack
# settings of the machine stay unchanged.
start_proxy() {
  cat >"$state/kube-proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
nftables: {minSyncPeriod: 50ms}
bindAddress: $node_ip
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
hostnameOverride: $node
clusterCIDR: $pod_cidr
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
clientConnection: {kubeconfig: $state/kube-proxy.conf}
YAML
  start kube-proxy "$kube/kube-proxy" --config "$state/kube-proxy.yaml"
}

deploy_dns() {
  # shellcheck disable=SC2016 # variable names in the file
  sed -e 's/\$dns_ip/'"$dns_ip/" -e 's/\$coredns_version/'"$coredns_version/" "$here/coredns.yaml" |
    "$kube/kubectl" apply -f -
}

need_root
alone
check_machine
"$here/build.sh"
started=$((${EPOCHREALTIME/[.,]/} / 1000))

network
credentials
start_containerd
start_etcd
start_apiserver
await 60 "containerd answers" ctr --address "$socket" version
"$here/load.sh" "$pause_image" "$coredns_image" "$(redis_image)" >"$state/log/images.log"
report "images are loaded"
await 120 "the API server is ready" "$kube/kubectl" --kubeconfig "$state/super-admin.conf" get --raw /readyz
bind_roles >>"$state/log/kubeadm.log"
start_controllers
start_kubelet
start_proxy
await 120 "the node is ready" "$kube/kubectl" wait --for=condition=Ready "node/$node" --timeout=1s
await 60 "pods can be made" "$kube/kubectl" get serviceaccount default
deploy_dns >>"$state/log/kubeadm.log"
await 60 "names are resolved" "$kube/kubectl" --namespace kube-system rollout status deployment/coredns --timeout=1s
touch "$state/up"
invite
