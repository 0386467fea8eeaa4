#!/bin/sh
# crio.sh: CRI-O with the wrapper as its OCI runtime: without a sandbox container (its default), with one, and with CRI-O's own NRI on,
# which then is in charge. That NRI has the socket that all know, so this has a mount namespace in which the socket's folder is its own; and
# with cgroup v1 their root too, since CRI-O makes folders there also for hierarchies that are not mounted.
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
PATH=$ENGINES:$PATH
need crio cri pinns copyimg conmon busybox
echo "CRI-O $(crio --version 2>/dev/null | sed -n 's/^crio version //p'), $(conmon --version | head -1), $("$REAL" --version | head -1)"
image "$WORK/layout"
echo '{"default":[{"type":"insecureAcceptAnything"}]}' >"$WORK/policy.json"
for name in busybox pause; do
  copyimg --root "$WORK/storage" --runroot "$WORK/run" --storage-driver vfs --signature-policy "$WORK/policy.json" \
    --import-from "oci:$WORK/layout" --image-name "localhost/$name:local" >>"$LOG" 2>&1 || { tail -3 "$LOG"; ok 'the image is loaded' false; exit; }
done

# config NRI: of an engine with NRI of its own, or not
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
listen = "$WORK/crio.sock"
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
c() { cri "$WORK/crio.sock" "$@"; }
id() { sed -n 's/.*"\(pod_sandbox_id\|container_id\)":"\([^"]*\)".*/\2/p'; }
# of a pod; $pid is how its containers share processes: 0 with each other, which needs a sandbox container, 1 not at all
pod() {
  printf '{"metadata":{"name":"%s","namespace":"space","uid":"uid-%s"},"labels":{"app":"%s"},"annotations":{"example.org/pod":"yes"},
    "log_directory":"%s","linux":{"cgroup_parent":"/nri-extra","security_context":{"namespace_options":{"network":2,"pid":%s}}}}' "$1" "$1" "$1" "$WORK/logs" "$pid"
}
# create POD NAME COMMAND [TTY]: prints the id
create() {
  c CreateContainer "$(printf '{"pod_sandbox_id":"%s","sandbox_config":%s,"config":{"metadata":{"name":"%s"},"labels":{"tier":"front"},
    "image":{"image":"localhost/busybox:local","user_specified_image":"localhost/busybox:local"},"command":["sh","-c","%s"],"log_path":"%s.log","tty":%s,
    "linux":{"resources":{"memory_limit_in_bytes":33554432},"security_context":{"namespace_options":{"network":2,"pid":%s}}}}}' \
    "$1" "$(pod one)" "$2" "$3" "$2" "${4:-false}" "$pid")" | id
}
inside() { c ExecSync "{\"container_id\":\"$1\",\"cmd\":[\"env\"]}" | sed 's/.*"stdout":"\([^"]*\)".*/\1/' | base64 -d; }
# limit ID V1-CONTROLLER V1-FILE V2-FILE
limit() {
  for file in "/sys/fs/cgroup/$2/nri-extra/crio-$1/$3" "/sys/fs/cgroup/nri-extra/crio-$1/$4"; do
    [ ! -e "$file" ] || cat "$file"
  done
}
status() { c ContainerStatus "{\"container_id\":\"$1\"}"; }
has_exited() { status "$1" | grep -q '"exit_code":17\|"exit_code": 17'; }

mkdir -p "$WORK/cni" "$WORK/cni-bin" "$WORK/hooks.d" "$WORK/none"
# engine NRI: starts CRI-O, in place of one that runs
engine() {
  config "$1" >"$WORK/crio.conf"
  for pid in $started; do
    kill "$pid"
    within 15 gone "$pid"
  done
  rm -f "$WORK/crio.sock"
  background crio --config "$WORK/crio.conf" --config-dir "$WORK/none" --log-level info
  within 20 c Version || { tail -5 "$LOG"; ok 'CRI-O starts' false; exit; }
}

engine false
for pid in 1 0; do
  [ $pid = 1 ] && echo '-- without a sandbox container' || echo '-- with a sandbox container'
  forget
  plugins '[filter]
name = "web"
annotations = { "example.org/pod" = "yes" }
[create.env.set]
ADDED = "for web"
[create.resources]
memory = 100663296
pids = 77
[update]
pids = 88
' "{\"Log\": \"$WORK/told\"}"
  rm -f "$WORK/told"
  p=$(c RunPodSandbox "{\"config\":$(pod one)}" | id)
  web=$(create "$p" web 'exec sleep 100')
  other=$(create "$p" other 'exit 17')
  ok 'a container starts' quiet c StartContainer "{\"container_id\":\"$web\"}"
  ok 'another starts' quiet c StartContainer "{\"container_id\":\"$other\"}"
  ok 'its exit code arrives' within 10 has_exited "$other"
  ok 'a plugin knows name and pod' holds "$(inside "$web")" 'ADDED=for web'
  ok 'it is told the pod'"'"'s name' grep -q '"pod":{[^}]*"name":"one"' "$WORK/told"
  ok 'its labels too' grep -q '"app":"one"' "$WORK/told"
  ok 'the labels of the container' grep -q '"tier":"front"' "$WORK/told"
  ok 'memory is what the plugin says' same 100663296 "$(limit "$web" memory memory.limit_in_bytes memory.max)"
  ok 'pids too' same 77 "$(limit "$web" pids pids.max pids.max)"
  ok 'an update' quiet c UpdateContainerResources "{\"container_id\":\"$web\",\"linux\":{\"memory_limit_in_bytes\":67108864}}"
  ok 'memory is what the engine says now' same 67108864 "$(limit "$web" memory memory.limit_in_bytes memory.max)"
  ok 'pids is what the plugin adds to an update' same 88 "$(limit "$web" pids pids.max pids.max)"
  tty=$(create "$p" tty 'tty; exit 3' true)
  c StartContainer "{\"container_id\":\"$tty\"}" >/dev/null
  ok 'a container with a terminal' within 10 grep -q '/dev/pts/' "$WORK/logs/tty.log"
  ok 'it goes' quiet c RemoveContainer "{\"container_id\":\"$tty\"}"
  ok 'stopped' quiet c StopContainer "{\"container_id\":\"$web\",\"timeout\":1}"
  ok 'removed' quiet c RemoveContainer "{\"container_id\":\"$web\"}"
  ok 'the other removed' quiet c RemoveContainer "{\"container_id\":\"$other\"}"
  ok 'the pod stopped' quiet c StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  ok 'the pod removed' quiet c RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  one="CreateContainer ValidateContainerAdjustment PostCreateContainer StartContainer PostStartContainer"
  ok 'all that was told of the one' hears 10 "$one UpdateContainer PostUpdateContainer StopContainer RemoveContainer" "$web"
  ok 'all that was told of the other' hears 10 "$one StopContainer RemoveContainer" "$other"
  ok 'the pod was told once' hears 10 "RunPodSandbox StopPodSandbox RemovePodSandbox" "\"event\":\"[A-Za-z]*PodSandbox\""
  ok 'around its containers' holds "x$(heard)x" "xRunPodSandbox CreateContainer"
  ok 'its end is the last' holds "x$(heard)x" " RemovePodSandboxx"

  forget
  plugins '' '{"Rules": [{"Error": "no room on this node"}]}'
  p=$(c RunPodSandbox "{\"config\":$(pod one)}" | id)
  refused=$(create "$p" web 'echo ran' 2>"$WORK/said")
  ok 'a refused container is not created' same '' "$refused"
  ok 'and says why' holds "$(cat "$WORK/said")" 'no room on this node'
  ok 'the pod can go' quiet c StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  ok 'and goes' quiet c RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  ok 'its life ends' hears 10 'RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox'
  ok 'nothing is left in the engine' same '{}{}' "$(c ListContainers)$(c ListPodSandbox)"
done

echo '-- with an NRI of its own'
engine true
plugins '[create.env.set]
ADDED = "10-adjust"
'
pid=0
# adjusted: whether a container of a new pod is
adjusted() {
  p=$(c RunPodSandbox "{\"config\":$(pod one)}" | id)
  web=$(create "$p" web 'exec sleep 100')
  c StartContainer "{\"container_id\":\"$web\"}" >/dev/null
  inside "$web" >"$WORK/env"
  c StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}" >/dev/null
  c RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}" >/dev/null
  grep -q '^ADDED=10-adjust$' "$WORK/env"
}
forget
ok 'its containers pass unchanged' not adjusted
ok 'they run' grep -q '^PATH=' "$WORK/env"
ok 'our plugins are not asked' same '' "$(heard | tr ' ' '\n' | grep Container)"
printf '[engines]\ncrio = "ours"\n' >>"$WORK/config.toml"
plugins '[create.env.set]
ADDED = "10-adjust"
'
ok 'unless the configuration says so' adjusted
