#!/bin/sh
# crio.sh: tests CRI-O with the wrapper as its OCI runtime: without a sandbox container (the
# default), with a sandbox container, and with CRI-O's own NRI, which then adjusts the containers.
# CRI-O's NRI uses the well-known socket, so the script runs in a mount namespace with a private
# /run/nri. On cgroup v1, /sys/fs/cgroup is private, too, since CRI-O makes directories there for
# hierarchies that are not mounted.
if [ "${1:-}" != private ]; then
  mkdir -p /run/nri
  exec unshare -m --propagation private "$0" private
fi
mount -t tmpfs tmpfs /run/nri || exit 1
if [ "$(stat -fc %T /sys/fs/cgroup)" = tmpfs ]; then
  mkdir /run/nri/cgroup
  mount --rbind /sys/fs/cgroup /run/nri/cgroup && mount -t tmpfs tmpfs /sys/fs/cgroup || exit 1
  for place in /run/nri/cgroup/*; do
    mountpoint -q "$place" || continue
    mkdir "/sys/fs/cgroup/${place##*/}"
    mount --bind "$place" "/sys/fs/cgroup/${place##*/}"
  done
  umount -R -l /run/nri/cgroup
fi
. "$(dirname "$0")/lib.sh"
. "$here/kube.sh"
SOCKET=$WORK/crio.sock CGROUP=crio-
PATH=$ENGINES:$PATH
need crio cri pinns copyimg conmon busybox
echo "CRI-O $(crio --version 2>/dev/null | sed -n 's/^crio version //p')," \
  "$(conmon --version | head -1), $("$REAL" --version | head -1)"
image "$WORK/layout"
echo '{"default":[{"type":"insecureAcceptAnything"}]}' >"$WORK/policy.json"
for name in busybox pause; do
  copyimg --root "$WORK/storage" --runroot "$WORK/run" --storage-driver vfs \
    --signature-policy "$WORK/policy.json" --import-from "oci:$WORK/layout" \
    --image-name "localhost/$name:local" >>"$LOG" 2>&1 ||
    { tail -3 "$LOG"; check 'the image is loaded' false; exit; }
done

# config NRI: prints the configuration; NRI is true to enable CRI-O's own NRI
config() {
  cat <<T
[crio]
root = "$WORK/storage"
runroot = "$WORK/run"
storage_driver = "vfs"
log_dir = "$WORK/logs"
version_file = "$WORK/version"
version_file_persist = ""
clean_shutdown_file = "$WORK/clean"
[crio.api]
listen = "$SOCKET"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
default_runtime = "wrap"
cgroup_manager = "cgroupfs"
drop_infra_ctr = true
pinns_path = "$ENGINES/pinns"
namespaces_dir = "$WORK/ns"
container_exits_dir = "$WORK/exits"
container_attach_socket_dir = "$WORK/attach"
hooks_dir = ["$WORK/hooks.d"]
apparmor_profile = "unconfined"
irqbalance_config_file = ""
default_ulimits = []
[crio.runtime.runtimes.wrap]
runtime_path = "$RUNTIME"
runtime_type = "oci"
runtime_root = "$WORK/runc"
monitor_path = "$(command -v conmon)"
monitor_cgroup = "pod"
allowed_annotations = []
[crio.image]
pause_image = "localhost/pause:local"
pause_command = "/pause"
signature_policy = "$WORK/policy.json"
signature_policy_dir = "$WORK/policies"
[crio.network]
network_dir = "$WORK/cni"
plugin_dirs = ["$WORK/cni-bin"]
[crio.nri]
enable_nri = $1
nri_listen = "/var/run/nri/nri.sock"
nri_plugin_dir = "$WORK/none"
nri_plugin_config_dir = "$WORK/none"
T
}
# engine NRI: stops CRI-O if it runs, and starts it
engine() {
  config "$1" >"$WORK/crio.conf"
  for pid in $started; do
    kill "$pid"
    within 15 has_ended "$pid"
  done
  rm -f "$SOCKET"
  background crio --config "$WORK/crio.conf" --config-dir "$WORK/none" --log-level info
  within 20 call Version || { tail -5 "$LOG"; check 'CRI-O starts' false; exit; }
}

engine false
for share in 1 0; do
  [ $share = 1 ] && echo '-- without a sandbox container' || echo '-- with a sandbox container'
  test_pod
done

echo "-- with CRI-O's own NRI"
engine true
plugins '[create.env.set]
ADDED = "10-adjust"
'
share=0
# is_adjusted: whether the plugin adjusts a container of a new pod
is_adjusted() {
  p=$(call RunPodSandbox "{\"config\":$(pod one)}" | id)
  web=$(create "$p" web 'exec sleep 100')
  call StartContainer "{\"container_id\":\"$web\"}" >/dev/null
  environment "$web" >"$WORK/env"
  call StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}" >/dev/null
  call RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}" >/dev/null
  grep -q '^ADDED=10-adjust$' "$WORK/env"
}
clear_records
check 'our plugin does not adjust containers' not is_adjusted
check 'the container runs' grep -q '^PATH=' "$WORK/env"
check 'our plugins receive no event' equal '' "$(events | tr ' ' '\n' | grep Container)"
printf '[engines]\ncrio = "ours"\n' >>"$WORK/config.toml"
plugins '[create.env.set]
ADDED = "10-adjust"
'
check 'with crio = "ours" our plugin adjusts containers' is_adjusted
