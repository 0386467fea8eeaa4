#!/bin/sh
# cri-dockerd.sh: tests cri-dockerd on a private dockerd with the wrapper as its default runtime.
# DOCKER=DIR is the directory of dockerd and its containerd (default: PATH).
. "$(dirname "$0")/lib.sh"
. "$here/kube.sh"
PATH=$ENGINES:$PATH
[ -z "${DOCKER:-}" ] || PATH=$DOCKER:$PATH
need cri-dockerd cri dockerd docker containerd busybox
echo "$(cri-dockerd --version 2>&1 | head -1), $(dockerd --version), $("$REAL" --version | head -1)"
SOCKET=$WORK/cri.sock CGROUP=
image "$WORK/layout"
tar -C "$WORK/layout" -cf "$WORK/image.tar" .
cat >"$WORK/daemon.json" <<J
{
  "data-root": "$WORK/data", "exec-root": "$WORK/exec", "pidfile": "$WORK/dockerd.pid",
  "hosts": ["unix://$WORK/docker.sock"], "storage-driver": "vfs",
  "runtimes": {"wrap": {"path": "$RUNTIME"}}, "default-runtime": "wrap",
  "iptables": false, "ip6tables": false, "bridge": "none",
  "exec-opts": ["native.cgroupdriver=cgroupfs"]
}
J
background dockerd --config-file "$WORK/daemon.json"
private_docker() { docker -H "unix://$WORK/docker.sock" "$@"; }
within 30 private_docker version || { tail -5 "$LOG"; check 'dockerd starts' false; exit; }
check 'the image is loaded' quiet private_docker load -q -i "$WORK/image.tar"
background cri-dockerd --container-runtime-endpoint "unix://$SOCKET" \
  --docker-endpoint "unix://$WORK/docker.sock" --network-plugin= \
  --cri-dockerd-root-directory "$WORK/cri" --pod-infra-container-image localhost/pause:local \
  --streaming-bind-addr 127.0.0.1:0
within 20 call Version || { tail -5 "$LOG"; check 'cri-dockerd starts' false; exit; }
test_pod
