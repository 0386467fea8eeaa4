#!/bin/sh
# nerdctl.sh: tests nerdctl on a private containerd, with the wrapper as its OCI runtime.
# CONTAINERD=DIR is the directory of containerd (default: PATH).
. "$(dirname "$0")/lib.sh"
PATH=$ENGINES:$PATH
[ -z "${CONTAINERD:-}" ] || PATH=$CONTAINERD:$PATH
need nerdctl containerd containerd-shim-runc-v2 busybox script
echo "$(nerdctl --version), $(containerd --version | cut -d' ' -f3), $("$REAL" --version | head -1)"
image "$WORK/layout"
tar -C "$WORK/layout" -cf "$WORK/image.tar" .
cat >"$WORK/containerd.toml" <<T
version = 2
root = "$WORK/root.d"
state = "$WORK/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "$WORK/containerd.sock"
T
background containerd -c "$WORK/containerd.toml"
cat >"$WORK/bin/n" <<N
#!/bin/sh
# nerdctl writes its environment into the hooks of every config.json, so the environment is minimal.
exec env -i PATH="$PATH" HOME=/root TERM=xterm nerdctl --address "$WORK/containerd.sock" --data-root "$WORK/nerdctl" --namespace nri-extra --cni-path "$WORK" --cni-netconfpath "$WORK/cni" --cgroup-manager cgroupfs --snapshotter native "\$@"
N
chmod 755 "$WORK/bin/n"
PATH=$WORK/bin:$PATH
within 20 n version || { tail -5 "$LOG"; ok 'containerd starts' false; exit; }
ok 'the image is loaded' quiet n load -i "$WORK/image.tar"
run() { n run --pull never --net none --runtime "$RUNTIME" "$@"; }
image=localhost/busybox:local
life='RunPodSandbox CreateContainer ValidateContainerAdjustment PostCreateContainer StartContainer PostStartContainer'
end='StopContainer StopPodSandbox RemoveContainer RemovePodSandbox'
# limit V1-HIERARCHY ID FILE: prints the value of a cgroup file of a container
limit() { cat "/sys/fs/cgroup$1/nri-extra/$2/$3"; }

plugins '[create.env.set]
ADDED = "10-adjust"
[[create.rlimits]]
type = "RLIMIT_NOFILE"
soft = 321
hard = 654
'
ok 'the container has what a plugin set' same '10-adjust 321' "$(run --rm $image sh -c "echo \$ADDED \$(ulimit -n)")"
ok 'the container has all events' hears 10 "$life $end"
run --rm $image sh -c 'exit 17'
ok 'the exit code arrives' same 17 $?
ok 'a terminal' holds "$(script -qec "$WORK/bin/n run --pull never --net none --runtime $RUNTIME --rm -it $image sh -c 'tty; echo \$ADDED'" /dev/null </dev/null)" '/dev/pts/'
n create --pull never --net none --runtime "$RUNTIME" --name later $image sleep 100 >/dev/null
forget
ok 'a container that is only created calls no runtime' same '' "$(calls)"
ok 'started' quiet n start later
ok 'the started container has its events' hears 10 "$life"
ok 'removed by force' quiet n rm -f later
ok 'the removed container has all events' hears 10 "$life $end"

forget
plugins '[filter]
name = "web"
[create.env.set]
ADDED = "for web"
[create.resources]
memory = 100663296
pids = 77
[update]
pids = 88
'
ok 'another name' quiet run -d --name other $image sleep 100
ok 'in the background' quiet run -d --name web --memory 32m --label example.org/a=b $image sleep 100
ok 'a plugin knows the name' holds "$(n exec web env)" 'ADDED=for web'
ok 'and only that one is adjusted' quiet not holds "$(n exec other env)" 'ADDED='
id=$(n ps -q --no-trunc --filter name=web)
if [ -d /sys/fs/cgroup/memory ]; then
  memory="limit /memory $id memory.limit_in_bytes" pids="limit /pids $id pids.max"
else
  memory="limit '' $id memory.max" pids="limit '' $id pids.max"
fi
ok 'memory is what the plugin says' same 100663296 "$(eval "$memory")"
ok 'pids too' same 77 "$(eval "$pids")"
ok 'an update' n update --memory 64m --memory-swap 64m web
ok 'memory is what the engine says now' same 67108864 "$(eval "$memory")"
ok 'pids is what the plugin adds to an update' same 88 "$(eval "$pids")"
ok 'paused and resumed' quiet n pause web
ok 'paused and resumed' quiet n unpause web
ok 'a terminal for exec' holds "$(script -qec "$WORK/bin/n exec -it web sh -c 'tty; echo \$ADDED'" /dev/null </dev/null)" 'for web'
ok 'stopped' quiet n stop -t 1 web
ok 'started again' quiet n start web
ok 'adjusted again' holds "$(n exec web env)" 'ADDED=for web'
ok 'removed' quiet n rm -f web other
ok 'both starts have all events' hears 10 "$life UpdateContainer PostUpdateContainer $end $life $end" "$id"

forget
plugins '' '{"Rules": [{"Error": "no room on this node"}]}'
run --rm $image echo ran >"$WORK/ran" 2>"$WORK/said"
ok 'a refused run fails' same 1 $?
ok 'the message has the reason' holds "$(cat "$WORK/said")" 'no room on this node'
ok 'the container did not run' same '' "$(cat "$WORK/ran")"
ok 'the refused container has its final events' hears 10 'RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox'
ok 'nothing is left in the engine' same '' "$(n ps -aq)"
