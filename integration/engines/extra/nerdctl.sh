#!/bin/sh
# nerdctl.sh: tests nerdctl on a private containerd, with the wrapper as its OCI runtime, and tries
# ways past the recipes of the plugin `rules`.
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
disabled_plugins = [
  "io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri",
]
[grpc]
  address = "$WORK/containerd.sock"
T
background containerd -c "$WORK/containerd.toml"
cat >"$WORK/bin/n" <<N
#!/bin/sh
# nerdctl writes its environment into the hooks of every config.json, so the environment is minimal.
exec env -i PATH="$PATH" HOME=/root TERM=xterm nerdctl --address "$WORK/containerd.sock" \\
  --data-root "$WORK/nerdctl" --namespace nri-extra --cni-path "$WORK" \\
  --cni-netconfpath "$WORK/cni" --cgroup-manager cgroupfs --snapshotter native "\$@"
N
chmod 755 "$WORK/bin/n"
PATH=$WORK/bin:$PATH
within 20 n version || { tail -5 "$LOG"; check 'containerd starts' false; exit; }
check 'the image is loaded' quiet n load -i "$WORK/image.tar"
run() { n run --pull never --net none --runtime "$RUNTIME" "$@"; }
image=localhost/busybox:local
life='RunPodSandbox CreateContainer ValidateContainerAdjustment PostCreateContainer'
life="$life StartContainer PostStartContainer"
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
check 'the container has the variable and the limit of the plugin' equal '10-adjust 321' \
  "$(run --rm $image sh -c "echo \$ADDED \$(ulimit -n)")"
check 'the container has all events' has_events 10 "$life $end"
run --rm $image sh -c 'exit 17'
check 'the exit code is reported' equal 17 $?
options="--pull never --net none --runtime $RUNTIME --rm -it"
script -qec "$WORK/bin/n run $options $image sh -c 'tty; echo \$ADDED'" /dev/null </dev/null \
  >"$WORK/output"
check 'a container can have a terminal' contains "$(cat "$WORK/output")" '/dev/pts/'
n create --pull never --net none --runtime "$RUNTIME" --name later $image sleep 100 >/dev/null
clear_records
check 'a container that is only created calls no runtime' equal '' "$(calls)"
check 'the created container is started' quiet n start later
check 'the started container has its events' has_events 10 "$life"
check 'the running container is removed by force' quiet n rm -f later
check 'the removed container has all events' has_events 10 "$life $end"

clear_records
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
check 'a container that the filter excludes starts' quiet run -d --name other $image sleep 100
check 'a container that the filter selects starts' quiet \
  run -d --name web --memory 32m --label example.org/a=b $image sleep 100
check 'the container is selected by its name' contains "$(n exec web env)" 'ADDED=for web'
check 'the other container is not adjusted' quiet not contains "$(n exec other env)" 'ADDED='
id=$(n ps -q --no-trunc --filter name=web)
if [ -d /sys/fs/cgroup/memory ]; then
  memory="limit /memory $id memory.limit_in_bytes" pids="limit /pids $id pids.max"
else
  memory="limit '' $id memory.max" pids="limit '' $id pids.max"
fi
check 'the memory limit is that of the plugin' equal 100663296 "$(eval "$memory")"
check 'the pids limit is that of the plugin' equal 77 "$(eval "$pids")"
check 'an update succeeds' n update --memory 64m --memory-swap 64m web
check 'the memory limit is that of the update' equal 67108864 "$(eval "$memory")"
check 'the pids limit is the one that the plugin adds to an update' equal 88 "$(eval "$pids")"
check 'the container is paused' quiet n pause web
check 'the container is resumed' quiet n unpause web
script -qec "$WORK/bin/n exec -it web sh -c 'tty; echo \$ADDED'" /dev/null </dev/null \
  >"$WORK/output"
check 'exec with a terminal has the variable' contains "$(cat "$WORK/output")" 'for web'
check 'the container is stopped' quiet n stop -t 1 web
check 'the container is started again' quiet n start web
check 'the container is adjusted at its second start' contains "$(n exec web env)" 'ADDED=for web'
check 'the containers are removed' quiet n rm -f web other
check 'both starts have all events' has_events 10 \
  "$life UpdateContainer PostUpdateContainer $end $life $end" "$id"

clear_records
plugins '' '{"Rules": [{"Error": "no room on this node"}]}'
run --rm $image echo ran >"$WORK/ran" 2>"$WORK/output"
check 'a refused run fails' equal 1 $?
check 'the message has the reason' contains "$(cat "$WORK/output")" 'no room on this node'
check 'the container did not run' equal '' "$(cat "$WORK/ran")"
check 'the refused container has its final events' has_events 10 \
  'RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox'
check 'nothing is left in the engine' equal '' "$(n ps -aq)"

# The ways past recipes of the plugin `rules`, as they are written: each on the bare runtime first.
# rules NAME [SED]: launches the plugin with a recipe, changed by SED
rules() {
  plugins ''
  cp "$PROGRAMS/nri-rules" "$WORK/plugins/50-rules"
  sed -e "${2:-}" "$top/src/plugins/rules/cookbook/$1.yaml" >"$WORK/conf/50-rules.conf"
  recipe=$1 stopped=0 ways=0
}
# refused OPTION...: checks that a container is refused that the bare runtime creates
refused() {
  ways=$((ways + 1))
  if ! n run --rm --pull never --net none "$@" $image true >"$WORK/output" 2>&1; then
    limitation "$recipe: $*: not on the bare runtime: $(tail -1 "$WORK/output")"
    return
  fi
  if run --rm "$@" $image true >"$WORK/output" 2>&1; then
    check "$recipe refuses $*" false
  else
    check "$recipe refuses $*" contains "$(cat "$WORK/output")" '50-rules'
  fi
  stopped=$((stopped + 1))
}
# tried: prints the numbers
tried() { echo "$recipe: $stopped of $ways ways are stopped, the others do not exist here"; }
cat >>"$WORK/config.toml" <<'T'
[containers]
facts = [
  "capabilities", "device_access", "engine", "host_namespaces", "mount_sources", "seccomp",
  "unprotected_paths",
]
T
# As the recipe says, for the hook of nerdctl.
rules privileged 's|&& (hooks.size() == 0|\&\& (hooks.all(path, path.endsWith("/nerdctl"))|'
refused --privileged
refused --cap-add=SYS_ADMIN
refused --cap-add=ALL
refused --pid=host
refused --ipc=host
refused --uts=host
refused --security-opt=seccomp=unconfined
refused --security-opt=privileged-without-host-devices --privileged
refused --device=/dev/kmsg
refused --label=nerdctl/image-name=registry.example.com/node-agent --cap-add=SYS_ADMIN
refused --annotation=io.kubernetes.cri.image-name=registry.example.com/node-agent \
  --annotation=io.kubernetes.cri.container-type=container --cap-add=SYS_ADMIN
tried
check 'an ordinary container is created' quiet run --rm --cap-drop=ALL $image true
listed=registry.example.com/node-agent:1
quiet n tag $image $listed
check 'a listed name of an image has more rights, as the recipe says' \
  quiet run --rm --cap-add=SYS_ADMIN $listed true

mkdir -p "$WORK/shared"
ln -s /etc "$WORK/shared/link"
# Volumes of nerdctl are in its own directory.
rules host-mounts "s|/srv/shared|$WORK/shared|
  s|/run/nri-container-runtime|$WORK/nri|
  s|/var/lib/docker/volumes/\[^/\]+|$WORK/nerdctl/.+/volumes/.+|
  s|/var/lib/docker/containers/|$WORK/nerdctl/.*|
  s|/var/lib/containerd/io|$WORK/root.d/io|
  s|/run/containerd/io|$WORK/state/io|"
refused --volume=/etc:/x
refused --volume=/:/host:ro
refused --volume="$WORK/shared/link:/x"
refused --volume="$WORK/shared/../../../etc:/x"
refused --mount=type=bind,src=/etc,dst=/x,readonly
refused --mount=type=bind,src=/etc,dst=/x,bind-propagation=rprivate
refused --volume=/proc:/x
quiet n create --pull never --net none --name from --volume /etc:/x $image true
refused --volumes-from=from
quiet n rm from
tried
check 'an allowed directory is mounted' quiet run --rm --volume "$WORK/shared:/x" $image true
check 'a volume is mounted' quiet run --rm --volume own:/x $image true

# A limit that is exceeded by no option and no update; the recipe only has defaults of these.
rules defaults 's/^    at_most:/&\n      memory.limit: 64Mi\n      pids.limit: 60\n      cpus: 1/
  s/nofile: 65536/nofile: 1000/
  s/hard: 65536/hard: 1000/; s/soft: 4096/soft: 1000/'
# values: prints limits of memory and processes of the container, and its CPU quota
values() {
  id=$(n ps -q --no-trunc --filter name=web)
  if [ -d /sys/fs/cgroup/memory ]; then
    echo "$(limit /memory "$id" memory.limit_in_bytes) $(limit /pids "$id" pids.max)" \
      "$(limit /cpu "$id" cpu.cfs_quota_us)"
  else
    echo "$(limit '' "$id" memory.max) $(limit '' "$id" pids.max)" \
      "$(limit '' "$id" cpu.max | cut -d' ' -f1)"
  fi
}
quiet run -d --name web --memory 8g --pids-limit 4000 --cpus 2 --ulimit nofile=9000 $image sleep 100
check 'no option exceeds the limits' equal '67108864 60 100000' "$(values)"
check 'nor that of open files' equal 1000 "$(n exec web sh -c 'ulimit -Hn')"
for option in '--memory 8g --memory-swap 8g' '--memory-swap -1' '--pids-limit 4000' \
  '--pids-limit -1' '--cpus 2' '--cpu-quota -1'; do
  # shellcheck disable=SC2086 # options are words
  n update $option web >"$WORK/output" 2>&1 ||
    limitation "update $option: $(tail -1 "$WORK/output")"
  check "no update exceeds them: $option" equal '67108864 60 100000' "$(values)"
done
check 'the container is removed' quiet n rm -f web
