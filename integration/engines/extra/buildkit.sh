#!/bin/sh
# buildkit.sh: tests BuildKit with the wrapper as its OCI runtime. BuildKit calls `run`, not
# `create`: the wrapper executes the real runtime, and injected hooks report the events.
# shellcheck disable=SC2016 # the shells of containers expand the single-quoted text
. "$(dirname "$0")/lib.sh"
PATH=$ENGINES:$PATH
need buildkitd buildctl enter busybox
"$REAL" run --help 2>&1 | grep -q -- --keep || {
  rm -rf "$WORK"
  trap - EXIT
  limitation "$REAL has no \`run --keep\`, which BuildKit requires"
  exit 0
}
echo "BuildKit $(buildkitd --version | cut -d' ' -f3), $("$REAL" --version | head -1)"
image "$WORK/layout"
mkdir -p "$WORK/context"
background buildkitd --addr "unix://$WORK/buildkitd.sock" --root "$WORK/data" \
  --containerd-worker=false --oci-worker-net=host --oci-worker-snapshotter=native \
  --oci-worker-binary="$RUNTIME" --otel-socket-path "$WORK/otel.sock"
within 20 buildctl --addr "unix://$WORK/buildkitd.sock" debug workers || {
  tail -5 "$LOG"
  check 'buildkitd starts' false
  exit
}

# build [ARGS...]: builds the context, with the output in $WORK/output. It is a program instead of
# a function, so that a signal reaches buildctl.
cat >"$WORK/bin/build" <<B
#!/bin/sh
exec buildctl --addr "unix://$WORK/buildkitd.sock" build --progress=plain --no-cache \\
  --frontend dockerfile.v0 --local "context=$WORK/context" --local "dockerfile=$WORK/context" \\
  --oci-layout "base=$WORK/layout" \\
  --opt "context:base=oci-layout://base@$(cat "$WORK/layout/digest")" "\$@" >"$WORK/output" 2>&1
B
chmod 755 "$WORK/bin/build"
PATH=$WORK/bin:$PATH

# has_three_steps: whether the plugin received all 10 events of 3 steps
has_three_steps() {
  [ "$(events | tr ' ' '\n' | grep -c RemovePodSandbox)" = 3 ] && [ "$(events | wc -w)" = 30 ]
}
step='RunPodSandbox CreateContainer ValidateContainerAdjustment PostCreateContainer'
step="$step StartContainer PostStartContainer"
end='StopContainer StopPodSandbox RemoveContainer RemovePodSandbox'

cat >"$WORK/context/Dockerfile" <<'D'
FROM base
RUN echo "from $ADDED" >/made && grep ^Max.open /proc/self/limits >>/made
RUN --network=none cat /made
D
plugins '[create.env.set]
ADDED = "10-adjust"
[[create.rlimits]]
type = "RLIMIT_NOFILE"
soft = 321
hard = 654
'
check 'two steps succeed' build --output "type=local,dest=$WORK/made"
check 'a step has the variable of the plugin' contains "$(cat "$WORK/made/made")" 'from 10-adjust'
check 'a step has the limit of the plugin' contains \
  "$(tr -s ' ' <"$WORK/made/made")" 'open files 321 654'
check 'each step is run and deleted' equal 'run delete run delete' "$(calls)"
check 'each step has all events' has_events 10 "$step $end $step $end"

clear_records
printf 'FROM base\nRUN exit 17\n' >"$WORK/context/Dockerfile"
check 'a failed step fails the build' not build
check 'the exit code of the step is reported' contains "$(cat "$WORK/output")" 'exit code: 17'
check 'the failed step has all events' has_events 10 "$step $end"

clear_records
printf 'FROM base\nRUN echo begun && sleep 60\n' >"$WORK/context/Dockerfile"
build & pid=$!
check 'a long step starts' within 20 grep -q ' begun$' "$WORK/output"
kill -TERM $pid
check 'a cancelled step has all events' has_events 10 "$step $end"
wait $pid
check 'BuildKit cancels a step by kill' equal 'run kill delete' "$(calls)"

clear_records
cat >"$WORK/context/Dockerfile" <<'D'
FROM base AS a
RUN sleep 1 && echo a >/a
FROM base AS b
RUN sleep 1 && echo b >/b
FROM base AS c
RUN sleep 1 && echo c >/c
FROM base
COPY --from=a /a /
COPY --from=b /b /
COPY --from=c /c /
D
check 'three steps run at once' build --output "type=local,dest=$WORK/three"
check 'the result has the files of three steps' equal abc \
  "$(cat "$WORK/three/a" "$WORK/three/b" "$WORK/three/c" | tr -d '\n')"
check 'three steps have all events' within 10 has_three_steps

clear_records
plugins '[create.env.set]
ADDED = "10-adjust"
[create.resources]
pids = 77
'
limits='/sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max'
set -- "echo one \$ADDED; cat $limits 2>/dev/null; exit 0" 'exit 5'
execs='run exec exec'
case $("$REAL" --version) in
  # crun fails with "tcgetattr: Inappropriate ioctl for device", also without the wrapper.
  crun*) limitation 'crun cannot exec with the terminals of BuildKit' ;;
  *) set -- "$1" 'tty tty; echo two $ADDED' "$2"; execs='run exec exec exec' ;;
esac
enter "$WORK/buildkitd.sock" "$WORK/root" "$@" >"$WORK/output" 2>&1
check 'exec in the container of a step succeeds' equal 0 $?
check 'exec has the variable of the plugin' contains "$(cat "$WORK/output")" 'one 10-adjust'
check 'the exit code of exec is reported' contains "$(cat "$WORK/output")" 'exit code 5'
if [ $# -eq 3 ]; then
  check 'exec can have a terminal' contains "$(cat "$WORK/output")" '/dev/pts/'
  check 'exec with a terminal has the variable' contains "$(cat "$WORK/output")" 'two 10-adjust'
fi
check 'the container has the pids limit of the plugin' grep -q '^77' "$WORK/output"
check 'BuildKit calls exec' equal "$execs" \
  "$(calls | tr ' ' '\n' | grep 'run\|exec' | tr '\n' ' ' | sed 's/ $//')"
check 'exec sends no event' has_events 10 "$step $end"

# The recipe of the plugin `rules` for builds, as it is written.
clear_records
plugins ''
cp "$PROGRAMS/nri-rules" "$WORK/plugins/50-rules"
cp "$top/src/plugins/rules/cookbook/builds.yaml" "$WORK/conf/50-rules.conf"
printf '[containers]\nfacts = ["engine"]\n' >>"$WORK/config.toml"
cat >"$WORK/context/Dockerfile" <<'D'
FROM base
RUN cd /sys/fs/cgroup && for file in \
    memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us pids/pids.max memory.max cpu.max pids.max; \
    do [ ! -e $file ] || echo "$file $(cat $file)"; done >/limits; \
    echo "oom_score_adj $(cat /proc/self/oom_score_adj)" >>/limits
D
check 'a step of a build succeeds with the recipe' build --output "type=local,dest=$WORK/capped"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  set -- 'memory.max 4294967296' 'cpu.max 200000 100000' 'pids.max 4096'
else
  set -- 'memory/memory.limit_in_bytes 4294967296' 'cpu/cpu.cfs_quota_us 200000' \
    'pids/pids.max 4096'
fi
for limit in "$@" 'oom_score_adj 500'; do
  check "the kernel has $limit" grep -qx "$limit" "$WORK/capped/limits"
done

clear_records
plugins '' '{"Rules": [{"Error": "no builds on this node"}]}'
printf 'FROM base\nRUN echo ran >&2\n' >"$WORK/context/Dockerfile"
check 'a build that a plugin refuses fails' not build
check 'the message has the reason' contains "$(cat "$WORK/output")" 'no builds on this node'
check 'the step did not run' not grep -q ' ran$' "$WORK/output"
check 'the refused step has its final events' has_events 10 \
  'RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox'
