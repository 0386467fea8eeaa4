# shellcheck shell=bash disable=SC2154 # variables of run.sh
# extra.sh: the targets of run.sh for engines that integration/engines/extra/build.sh builds, with
# their own NRI. run.sh sources it.

# stop_engine PID: ends an engine
stop_engine() {
  kill "$1" 2>/dev/null
  within 30 has_ended "$1" || kill -9 "$1"
}

# cri-o: CRI-O. On cgroup v1 it gets a private /sys/fs/cgroup, since it makes directories there for
# hierarchies that are not mounted.
cri-o() {
  local bin=$ENGINES/bin/trixie pid name
  echo '{"default":[{"type":"insecureAcceptAnything"}]}' >"$WORK/policy.json"
  for name in busybox pause; do
    "$EXTRA/copyimg" --root "$WORK/storage" --runroot "$WORK/run" --storage-driver vfs \
      --signature-policy "$WORK/policy.json" --image-name "localhost/$name:local" --import-from \
      "docker-archive:$ENGINES/img/docker-archive.tar:localhost/$name:local" \
      >>"$OUT/$target.log" 2>&1 || return
  done
  mkdir -p "$WORK"/{cni,cni-bin,hooks.d,none,cgroup}
  # Where root cannot lower oom_score_adj, runc fails with the value that CRI-O sets for sandboxes.
  cat >"$WORK/runtime" <<S
#!/bin/sh
if ! (echo -1 >/proc/self/oom_score_adj) 2>/dev/null; then
  for argument in "\$@"; do
    [ ! -f "\$argument/config.json" ] ||
      sed -i 's/\("oomScoreAdj": *\)-[0-9]*/\10/' "\$argument/config.json"
  done
fi
exec $bin/runc "\$@"
S
  chmod 755 "$WORK/runtime"
  cat >"$WORK/crio.conf" <<T
[crio]
root = "$WORK/storage"
runroot = "$WORK/run"
storage_driver = "vfs"
log_dir = "$WORK/logs"
version_file = "$WORK/version"
version_file_persist = ""
clean_shutdown_file = "$WORK/clean"
[crio.api]
listen = "$WORK/crio.sock"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
drop_infra_ctr = true
pinns_path = "$EXTRA/pinns"
namespaces_dir = "$WORK/ns"
container_exits_dir = "$WORK/exits"
container_attach_socket_dir = "$WORK/attach"
hooks_dir = ["$WORK/hooks.d"]
apparmor_profile = "unconfined"
irqbalance_config_file = ""
default_ulimits = []
[crio.runtime.runtimes.runc]
runtime_path = "$WORK/runtime"
runtime_type = "oci"
runtime_root = "$WORK/runc"
monitor_path = "$bin/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "localhost/pause:local"
pause_command = ""
signature_policy = "$WORK/policy.json"
signature_policy_dir = "$WORK/policies"
[crio.network]
network_dir = "$WORK/cni"
plugin_dirs = ["$WORK/cni-bin"]
[crio.nri]
enable_nri = true
nri_listen = "$WORK/nri.sock"
nri_plugin_dir = "$WORK/none"
nri_plugin_config_dir = "$WORK/none"
T
  # shellcheck disable=SC2016 # the inner shell expands
  PATH=$PATH:$bin setsid unshare -m --propagation private sh -c '
    if [ "$(stat -fc %T /sys/fs/cgroup)" = tmpfs ]; then
      mount --rbind /sys/fs/cgroup "$1/cgroup" && mount -t tmpfs tmpfs /sys/fs/cgroup || exit
      for place in "$1"/cgroup/*; do
        mountpoint -q "$place" || continue
        mkdir "/sys/fs/cgroup/${place##*/}"
        mount --bind "$place" "/sys/fs/cgroup/${place##*/}"
      done
      umount -R -l "$1/cgroup"
    fi
    exec "$2" --config "$1/crio.conf" --config-dir "$1/none" --log-level info' \
    sh "$WORK" "$EXTRA/crio" >"$OUT/$target.engine.log" 2>&1 </dev/null &
  pid=$!
  if within 20 "$EXTRA/cri" "$WORK/crio.sock" Version; then
    conformance --driver cri --socket "$WORK/nri.sock" --cgroup-parent /nri-conformance \
      --client "$EXTRA/cri $WORK/crio.sock"
  else
    tail -3 "$OUT/$target.engine.log" >>"$OUT/$target.log"
  fi
  stop_engine "$pid"
}

# moby-29: dockerd of Docker 29, with client, containerd and runc of sid
moby-29() {
  local bin=$ENGINES/bin/sid pid
  cat >"$WORK/daemon.json" <<J
{
  "data-root": "$WORK/data", "exec-root": "$WORK/exec", "pidfile": "$WORK/dockerd.pid",
  "hosts": ["unix://$WORK/docker.sock"], "storage-driver": "vfs",
  "features": {"containerd-snapshotter": false},
  "iptables": false, "ip6tables": false, "bridge": "none",
  "exec-opts": ["native.cgroupdriver=cgroupfs"],
  "nri-opts": {
    "enable": true, "socket-path": "$WORK/nri.sock",
    "plugin-path": "$WORK/none", "plugin-config-path": "$WORK/none"
  }
}
J
  mkdir -p "$WORK/none"
  PATH=$bin:$PATH setsid "$EXTRA/docker29/dockerd" --config-file "$WORK/daemon.json" \
    >"$OUT/$target.engine.log" 2>&1 </dev/null &
  pid=$!
  if within 30 "$bin/docker" -H "unix://$WORK/docker.sock" version &&
    "$bin/docker" -H "unix://$WORK/docker.sock" load -q -i "$ENGINES/img/docker-archive.tar" \
      >>"$OUT/$target.log" 2>&1; then
    conformance --driver docker "${few[@]}" --socket "$WORK/nri.sock" \
      --client "$bin/docker -H unix://$WORK/docker.sock" --oci-config \
      "$WORK/exec/containerd/daemon/io.containerd.runtime.v2.task/moby/{id}/config.json"
  else
    tail -3 "$OUT/$target.engine.log" >>"$OUT/$target.log"
  fi
  stop_engine "$pid"
}
