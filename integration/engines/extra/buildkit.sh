#!/bin/sh
# buildkit.sh: tests BuildKit with the wrapper as its OCI runtime. BuildKit calls `run`, not
# `create`: the wrapper executes the real runtime, and injected hooks report the events.
# shellcheck disable=SC2016 # the shells of containers expand the single-quoted text
. "$(dirname "$0")/lib.sh"
PATH=$ENGINES:$PATH
need buildkitd buildctl enter busybox
"$REAL" run --help 2>&1 | grep -q -- --keep || { rm -rf "$WORK"; trap - EXIT; limitation "$REAL has no \`run --keep\`, which BuildKit asks for"; exit 0; }
echo "BuildKit $(buildkitd --version | cut -d' ' -f3), $("$REAL" --version | head -1)"
image "$WORK/layout"
mkdir -p "$WORK/context"
background buildkitd --addr "unix://$WORK/buildkitd.sock" --root "$WORK/data" --containerd-worker=false --oci-worker-net=host \
  --oci-worker-snapshotter=native --oci-worker-binary="$RUNTIME" --otel-socket-path "$WORK/otel.sock"
within 20 buildctl --addr "unix://$WORK/buildkitd.sock" debug workers || { tail -5 "$LOG"; ok 'buildkitd starts' false; exit; }

# build [ARGS...]: builds the context, with the output in $WORK/said. It is a program and no
# function, so that a signal to it reaches buildctl.
cat >"$WORK/bin/build" <<B
#!/bin/sh
exec buildctl --addr "unix://$WORK/buildkitd.sock" build --progress=plain --no-cache --frontend dockerfile.v0 --local "context=$WORK/context" \\
  --local "dockerfile=$WORK/context" --oci-layout "base=$WORK/layout" --opt "context:base=oci-layout://base@$(cat "$WORK/layout/digest")" "\$@" >"$WORK/said" 2>&1
B
chmod 755 "$WORK/bin/build"
PATH=$WORK/bin:$PATH

three() { [ "$(heard | tr ' ' '\n' | grep -c RemovePodSandbox)" = 3 ] && [ "$(heard | wc -w)" = 30 ]; }
step='RunPodSandbox CreateContainer ValidateContainerAdjustment PostCreateContainer StartContainer PostStartContainer'
end='StopContainer StopPodSandbox RemoveContainer RemovePodSandbox'

printf 'FROM base\nRUN echo "from $ADDED" >/made && grep ^Max.open /proc/self/limits >>/made\nRUN --network=none cat /made\n' >"$WORK/context/Dockerfile"
plugins '[create.env.set]
ADDED = "10-adjust"
[[create.rlimits]]
type = "RLIMIT_NOFILE"
soft = 321
hard = 654
'
ok 'two steps succeed' build --output "type=local,dest=$WORK/made"
ok 'the result has what a plugin set' holds "$(cat "$WORK/made/made")" 'from 10-adjust'
ok 'a limit of a plugin holds' holds "$(tr -s ' ' <"$WORK/made/made")" 'open files 321 654'
ok 'each step is run and deleted' same 'run delete run delete' "$(calls)"
ok 'each step has all events' hears 10 "$step $end $step $end"

forget
printf 'FROM base\nRUN exit 17\n' >"$WORK/context/Dockerfile"
ok 'a step that fails, fails the build' not build
ok 'the exit code of the step is reported' holds "$(cat "$WORK/said")" 'exit code: 17'
ok 'the failed step has all events' hears 10 "$step $end"

forget
printf 'FROM base\nRUN echo begun && sleep 60\n' >"$WORK/context/Dockerfile"
build & pid=$!
ok 'a long step begins' within 20 grep -q ' begun$' "$WORK/said"
kill -TERM $pid
ok 'a cancelled step has all events' hears 10 "$step $end"
wait $pid
ok 'cancelled by kill' same 'run kill delete' "$(calls)"

forget
printf 'FROM base AS a\nRUN sleep 1 && echo a >/a\nFROM base AS b\nRUN sleep 1 && echo b >/b\nFROM base AS c\nRUN sleep 1 && echo c >/c\nFROM base\nCOPY --from=a /a /\nCOPY --from=b /b /\nCOPY --from=c /c /\n' >"$WORK/context/Dockerfile"
ok 'three steps at once' build --output "type=local,dest=$WORK/three"
ok 'all three were made' same abc "$(cat "$WORK/three/a" "$WORK/three/b" "$WORK/three/c" | tr -d '\n')"
ok 'three steps have all events' within 10 three

forget
plugins '[create.env.set]
ADDED = "10-adjust"
[create.resources]
pids = 77
'
set -- 'echo one $ADDED; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null; exit 0' 'exit 5'
execs='run exec exec'
case $("$REAL" --version) in
  # It says "tcgetattr: Inappropriate ioctl for device", also where BuildKit calls it itself.
  crun*) limitation 'crun cannot exec with the terminals that BuildKit gives it' ;;
  *) set -- "$1" 'tty tty; echo two $ADDED' "$2"; execs='run exec exec exec' ;;
esac
enter "$WORK/buildkitd.sock" "$WORK/root" "$@" >"$WORK/said" 2>&1
ok 'processes beside the first one run' same 0 $?
ok 'a process beside it has what a plugin set' holds "$(cat "$WORK/said")" 'one 10-adjust'
ok 'its exit code arrives' holds "$(cat "$WORK/said")" 'exit code 5'
if [ $# -eq 3 ]; then
  ok 'one with a terminal' holds "$(cat "$WORK/said")" '/dev/pts/'
  ok 'has it too' holds "$(cat "$WORK/said")" 'two 10-adjust'
fi
ok 'a limit of the plugin holds' grep -q '^77' "$WORK/said"
ok 'BuildKit used exec' same "$execs" "$(calls | tr ' ' '\n' | grep 'run\|exec' | tr '\n' ' ' | sed 's/ $//')"
ok 'exec sends no event' hears 10 "$step $end"

forget
plugins '' '{"Rules": [{"Error": "no builds on this node"}]}'
printf 'FROM base\nRUN echo ran >&2\n' >"$WORK/context/Dockerfile"
ok 'a build that a plugin refuses fails' not build
ok 'the message has the reason' holds "$(cat "$WORK/said")" 'no builds on this node'
ok 'the step did not run' not grep -q ' ran$' "$WORK/said"
ok 'the refused step has its final events' hears 10 'RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox'
