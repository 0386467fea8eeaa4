# shellcheck shell=sh
# lib.sh: functions of the test scripts of engines in this directory, which source it. It makes a
# directory with the configuration, state, plugins and journal of the wrapper, so that nothing is
# shared with engines of the host. Its functions make an image, check results and clean up.
# Variables: WORK (the directory), RUNTIME (the OCI runtime for the engine), JOURNAL (events that
# the plugin received), CALLS (calls of the runtime by the engine), LOG (output of the engine).
# RECORD=DIR in the environment keeps command lines and config.json files in DIR.
set -u
PATH=${PATH:-}:/usr/local/sbin:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
TARGET=${CARGO_TARGET_DIR:-$top/target}
PROGRAMS=${PROGRAMS:-$TARGET/debug}
ENGINES=${ENGINES:-$TARGET/engines-extra}
# limitation WHY: reports a check that the engine or the runtime does not support, with or without
# the wrapper; integration/run-tests.sh counts it
limitation() {
  echo "SKIPPED engines-extra $(basename "$0" .sh): $1" | tee -a "$TARGET/skipped.txt"
}

# skipped WHY: reports that the engine is skipped, and exits
skipped() {
  limitation "$1"
  [ "${CI:-}" != true ] || exit 1
  exit 0
}

REAL=$(command -v "${REAL:-runc}") || skipped "no ${REAL:-runc}"
# The path is short, since paths of unix sockets are limited to 107 bytes.
WORK=$(mktemp -d /tmp/nri-extra.XXXXXX)
JOURNAL=$WORK/journal CALLS=$WORK/calls RUNTIME=$WORK/nri-runc LOG=$WORK/engine.log
failed=0 started=

# need PROGRAM...: skips this engine if a program is missing
need() {
  for program in "$@"; do
    command -v "$program" >/dev/null && continue
    trap - EXIT
    rm -rf "$WORK"
    skipped "no $program"
  done
}

# check TEXT CMD...: prints a line with the result of the command: ok or FAILED
check() {
  text=$1
  shift
  if "$@"; then
    echo "ok      $text"
  else
    echo "FAILED  $text"
    failed=$((failed + 1))
  fi
}

# equal EXPECTED TEXT: whether the texts are equal; prints them if they differ
equal() { [ "$1" = "$2" ] || { printf '  expected: %s\n  got:      %s\n' "$1" "$2"; false; }; }
# contains TEXT PART: whether TEXT contains PART; prints them if it does not
contains() {
  case $1 in
    *"$2"*) ;;
    *) printf '  expected: %s\n  in:       %s\n' "$2" "$1"; false ;;
  esac
}

# within SECONDS CMD...: repeats CMD until it succeeds
within() {
  n=$(($1 * 10))
  shift
  while ! "$@" >/dev/null 2>&1; do
    n=$((n - 1))
    [ $n -gt 0 ] || return 1
    sleep 0.1
  done
}

# background CMD...: starts CMD with its output in $LOG; `finish` ends it
background() {
  setsid "$@" >>"$LOG" 2>&1 </dev/null &
  started="$! $started"
}

# plugins TOML [JSON]: replaces the plugins by `adjust` with the configuration TOML and, if JSON is
# given, by `gostub` with the configuration JSON, too. An error of `gostub` refuses the container.
plugins() {
  "$PROGRAMS/nrictl" --config "$WORK/config.toml" stop >/dev/null 2>&1
  rm -f "$WORK"/plugins/* "$WORK"/conf/*
  cp "$PROGRAMS/examples/adjust" "$WORK/plugins/10-adjust"
  printf 'log = "%s"\n%s\n' "$JOURNAL" "$1" >"$WORK/conf/10-adjust.conf"
  [ $# -eq 1 ] && return
  cp "$TARGET/integration/gostub" "$WORK/plugins/20-refuse"
  echo "$2" >"$WORK/conf/20-refuse.conf"
}

# events [PATTERN]: prints the events that the plugin has received, in one line; with PATTERN only
# those whose line in the journal matches it, such as the id of a container
events() {
  sed -n "s/.*\"event\":\"\([A-Za-z]*\)\".*/\1 &/p" "$JOURNAL" 2>/dev/null |
    grep -v '^\(Configure\|Synchronize\|Shutdown\) ' |
    grep -- "${1:-}" | cut -d' ' -f1 | tr '\n' ' ' | sed 's/ $//'
}

# has_events SECONDS EVENTS [PATTERN]: waits until `events PATTERN` prints EVENTS
has_events() {
  n=$(($1 * 10))
  while [ "$(events "${3:-}")" != "$2" ] && [ $n -gt 0 ]; do
    n=$((n - 1))
    sleep 0.1
  done
  equal "$2" "$(events "${3:-}")"
}

# clear_records: empties the journal and the list of calls
clear_records() { : >"$JOURNAL"; : >"$CALLS"; }

# calls: prints the verbs that the engine has called so far, in one line
calls() { sed 's/ .*//' "$CALLS" | tr '\n' ' ' | sed 's/ $//'; }

# image DIR: makes an OCI layout with one image, and writes the digest of the image to DIR/digest.
# The image has a static busybox and runs /pause, so that sandboxes can use it, too.
image() {
  root=$WORK/root blobs=$1/blobs/sha256
  mkdir -p "$root/bin" "$root/tmp" "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$blobs"
  cp "$(command -v busybox)" "$root/bin/busybox"
  for applet in sh tty cat echo env sleep ls grep stat sed true; do
    ln -sf busybox "$root/bin/$applet"
  done
  printf '#!/bin/sh\ntrap "exit 0" TERM\nsleep 1000000 &\nwait\n' >"$root/pause"
  chmod 755 "$root/pause"
  echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
  echo root:x:0: >"$root/etc/group"
  tar -C "$root" --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name -cf "$WORK/layer" .
  put "$WORK/layer"
  layer=$digest layer_size=$size
  case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
  cat >"$WORK/blob" <<J
{
  "architecture": "$arch", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": ["/pause"]},
  "rootfs": {"type": "layers", "diff_ids": ["$layer"]}
}
J
  put "$WORK/blob"
  # `docker load` reads manifest.json, other importers read index.json.
  cat >"$1/manifest.json" <<J
[{
  "Config": "blobs/sha256/${digest#*:}", "Layers": ["blobs/sha256/${layer#*:}"],
  "RepoTags": ["localhost/busybox:local", "localhost/pause:local"]
}]
J
  kind=application/vnd.oci.image
  cat >"$WORK/blob" <<J
{
  "schemaVersion": 2, "mediaType": "$kind.manifest.v1+json",
  "config": {"mediaType": "$kind.config.v1+json", "digest": "$digest", "size": $size},
  "layers": [{"mediaType": "$kind.layer.v1.tar", "digest": "$layer", "size": $layer_size}]
}
J
  put "$WORK/blob"
  echo '{"imageLayoutVersion":"1.0.0"}' >"$1/oci-layout"
  cat >"$1/index.json" <<J
{
  "schemaVersion": 2,
  "manifests": [{
    "mediaType": "$kind.manifest.v1+json", "digest": "$digest", "size": $size,
    "platform": {"os": "linux", "architecture": "$arch"},
    "annotations": {
      "io.containerd.image.name": "localhost/busybox:local",
      "org.opencontainers.image.ref.name": "local"
    }
  }]
}
J
  echo "$digest" >"$1/digest"
}

# put FILE: moves the file into $blobs; sets $digest and $size
put() {
  sum=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  digest=sha256:$sum
  mv "$1" "$blobs/$sum"
}

# finish: ends the started processes and removes all files; the trap on EXIT calls it. A process or
# cgroup that still exists then is a failure.
finish() {
  trap - EXIT
  for pid in $started; do
    kill "$pid" 2>/dev/null
    within 15 has_ended "$pid" || kill -9 "$pid" 2>/dev/null
  done
  "$PROGRAMS/nrictl" --config "$WORK/config.toml" stop >/dev/null 2>&1
  check 'no nrid is left' within 5 not "$PROGRAMS/nrictl" --config "$WORK/config.toml" status
  check 'no record is left' equal "" \
    "$(cd "$WORK/nri" 2>/dev/null && find containers pods exec -type f 2>/dev/null)"
  check 'no process is left' within 5 not our_processes
  # After a failure, the processes of the engine and of containers may still run.
  our_processes | while read -r pid; do kill -9 "$pid"; done
  cat /sys/fs/cgroup/*/nri-extra/*/cgroup.procs /sys/fs/cgroup/nri-extra/*/cgroup.procs \
    2>/dev/null | sort -u | while read -r pid; do kill -9 "$pid" 2>/dev/null; done
  find /sys/fs/cgroup -depth -type d \
    \( -name nri-extra -o -path '*/nri-extra/*' -o -name buildkit \) -exec rmdir {} + 2>/dev/null
  check 'no cgroup is left' equal '' \
    "$(find /sys/fs/cgroup -type d -path '*/nri-extra/*' 2>/dev/null)"
  [ $failed -eq 0 ] || [ -z "${KEEP:-}" ] || { echo "kept: $WORK"; exit $failed; }
  cut -d' ' -f5 /proc/self/mountinfo | grep "^$WORK/" | sort -r |
    while read -r place; do umount -l "$place"; done
  rm -rf "$WORK"
  exit $failed
}
# our_processes: prints the ids of processes with $WORK in their command line; fails without any
our_processes() {
  for place in /proc/[0-9]*; do
    [ "${place#/proc/}" = $$ ] || ! grep -qaF "$WORK" "$place/cmdline" 2>/dev/null ||
      echo "${place#/proc/}"
  done | grep .
}
has_ended() { ! kill -0 "$1" 2>/dev/null; }
not() { ! "$@"; }
quiet() { "$@" >/dev/null; }

mkdir -p "$WORK/plugins" "$WORK/conf" "$WORK/bin"
clear_records
cat >"$WORK/config.toml" <<T
state_dir = "$WORK/nri"
plugin_path = "$WORK/plugins"
plugin_config_path = "$WORK/conf"
plugin_request_timeout = "10s"
[runtime]
path = "$REAL"
[[plugin]]
match = "refuse"
on_failure = "fail"
required = false
T
# Where root cannot lower oom_score_adj, as in some containers, a runtime fails with the value that
# engines set for sandboxes, so the value is replaced by 0.
can_lower_oom_score=1
sh -c 'echo -1 >/proc/self/oom_score_adj' 2>/dev/null || can_lower_oom_score=
# The runtime for the engine: records the verb and the command line, and executes the wrapper.
cat >"$RUNTIME" <<S
#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
bundle=. verb= next=
for a in "\$@"; do
  case \$next in --bundle | -b) bundle=\$a ;; esac
  case \$a in --bundle=*) bundle=\${a#*=} ;; esac
  case \$a in
    create | run | start | exec | update | kill | delete) verb=\${verb:-\$a} ;;
    state | pause | resume | features | events | ps | list) verb=\${verb:-\$a} ;;
  esac
  next=\$a
done
echo "\${verb:-none} \$*" >>"$CALLS"
if [ -n "${RECORD:-}" ]; then
  n=\$(date +%s%N)
  echo "\$n [\$(cat /proc/\$PPID/comm) cwd=\$PWD] \$*" >>"${RECORD:-}/calls.txt"
  case \$verb in
    create | run) cp "\$bundle/config.json" "${RECORD:-}/\$n-\$verb.config.json" ;;
  esac
fi
case \$verb in
  create | run)
    [ -n "$can_lower_oom_score" ] ||
      sed -i 's/\("oomScoreAdj": *\)-[0-9]*/\10/' "\$bundle/config.json"
    ;;
esac
exec "$PROGRAMS/nri-container-runtime" --nri-config "$WORK/config.toml" "\$@"
S
chmod 755 "$RUNTIME"
[ -z "${RECORD:-}" ] || mkdir -p "$RECORD"
trap finish EXIT
trap 'exit 130' INT TERM HUP PIPE
