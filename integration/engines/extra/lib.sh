# shellcheck shell=sh
# lib.sh: functions of the engines' scripts in this directory, which source it. It makes a directory
# with a private configuration, state, plugins and journal of the wrapper, so that nothing is shared
# with engines of the host; it also makes an image, checks results and cleans up.
# Variables: WORK (the directory), RUNTIME (the OCI runtime for the engine), JOURNAL (events of the
# plugin), CALLS (calls of the runtime by the engine), LOG (of the engine). RECORD=DIR in the
# environment keeps command lines and config.json files in DIR.
set -u
PATH=${PATH:-}:/usr/local/sbin:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
TARGET=${CARGO_TARGET_DIR:-$top/target}
PROGRAMS=${PROGRAMS:-$TARGET/debug}
ENGINES=${ENGINES:-$TARGET/engines-extra}
# limitation WHY: reports a check that the engine or the runtime does not support, with or without
# the wrapper; integration/skipped.sh counts it
limitation() { echo "SKIPPED engines-extra $(basename "$0" .sh): $1" | tee -a "$TARGET/skipped.txt"; }

# skipped WHY: reports that the engine is skipped, and exits
skipped() {
  limitation "$1"
  [ "${CI:-}" != true ] || exit 1
  exit 0
}

REAL=$(command -v "${REAL:-runc}") || skipped "no ${REAL:-runc}"
# The path is short, since those of sockets are limited to 107 bytes.
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

# ok TEXT CMD...: runs a check and prints a line with its result
ok() {
  text=$1
  shift
  if "$@"; then
    echo "ok      $text"
  else
    echo "FAILED  $text"
    failed=$((failed + 1))
  fi
}

# same WANTED SEEN: whether the texts are equal; holds TEXT PART: whether TEXT contains PART
same() { [ "$1" = "$2" ] || { printf '  wanted: %s\n  seen:   %s\n' "$1" "$2"; false; }; }
holds() { case $1 in *"$2"*) ;; *) printf '  wanted: %s\n  in:     %s\n' "$2" "$1"; false ;; esac; }

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
# given, `gostub` with the configuration JSON, whose failure refuses a container
plugins() {
  "$PROGRAMS/nrictl" --config "$WORK/config.toml" stop >/dev/null 2>&1
  rm -f "$WORK"/plugins/* "$WORK"/conf/*
  cp "$PROGRAMS/examples/adjust" "$WORK/plugins/10-adjust"
  printf 'log = "%s"\n%s\n' "$JOURNAL" "$1" >"$WORK/conf/10-adjust.conf"
  [ $# -eq 1 ] && return
  cp "$TARGET/integration/gostub" "$WORK/plugins/20-judge"
  echo "$2" >"$WORK/conf/20-judge.conf"
}

# heard [CONTAINER]: prints the events so far, of one container and its pod or of all, in one line
heard() {
  sed -n "s/.*\"event\":\"\([A-Za-z]*\)\".*/\1 &/p" "$JOURNAL" 2>/dev/null | grep -v '^\(Configure\|Synchronize\|Shutdown\) ' |
    grep -- "${1:-}" | cut -d' ' -f1 | tr '\n' ' ' | sed 's/ $//'
}

# hears SECONDS EVENTS [CONTAINER]: waits for this sequence
hears() {
  n=$(($1 * 10))
  while [ "$(heard "${3:-}")" != "$2" ] && [ $n -gt 0 ]; do
    n=$((n - 1))
    sleep 0.1
  done
  same "$2" "$(heard "${3:-}")"
}

# forget: empties the journal and the list of calls
forget() { : >"$JOURNAL"; : >"$CALLS"; }

# calls: prints the verbs that the engine has called so far, in one line
calls() { sed 's/ .*//' "$CALLS" | tr '\n' ' ' | sed 's/ $//'; }

# image DIR: makes an OCI layout with one image, a static busybox that runs /pause, which is for
# sandboxes, too; writes its digest to DIR/digest
image() {
  root=$WORK/root blobs=$1/blobs/sha256
  mkdir -p "$root/bin" "$root/tmp" "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$blobs"
  cp "$(command -v busybox)" "$root/bin/busybox"
  for applet in sh tty cat echo env sleep ls grep stat sed true; do ln -sf busybox "$root/bin/$applet"; done
  printf '#!/bin/sh\ntrap "exit 0" TERM\nsleep 1000000 &\nwait\n' >"$root/pause"
  chmod 755 "$root/pause"
  echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
  echo root:x:0: >"$root/etc/group"
  tar -C "$root" --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name -cf "$WORK/layer" .
  put "$WORK/layer"
  layer=$digest layer_size=$size
  case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
  printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["/pause"]},"rootfs":{"type":"layers","diff_ids":["%s"]}}' \
    "$arch" "$layer" >"$WORK/blob"
  put "$WORK/blob"
  # Docker reads this one.
  printf '[{"Config":"blobs/sha256/%s","RepoTags":["localhost/busybox:local","localhost/pause:local"],"Layers":["blobs/sha256/%s"]}]' \
    "${digest#*:}" "${layer#*:}" >"$1/manifest.json"
  kind=application/vnd.oci.image
  printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json","digest":"%s","size":%s},"layers":[{"mediaType":"%s.layer.v1.tar","digest":"%s","size":%s}]}' \
    $kind $kind "$digest" "$size" $kind "$layer" "$layer_size" >"$WORK/blob"
  put "$WORK/blob"
  echo '{"imageLayoutVersion":"1.0.0"}' >"$1/oci-layout"
  printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s.manifest.v1+json","digest":"%s","size":%s,"platform":{"os":"linux","architecture":"%s"},"annotations":{"io.containerd.image.name":"localhost/busybox:local","org.opencontainers.image.ref.name":"local"}}]}' \
    $kind "$digest" "$size" "$arch" >"$1/index.json"
  echo "$digest" >"$1/digest"
}

# put FILE: moves the file into $blobs; sets $digest and $size
put() {
  sum=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  digest=sha256:$sum
  mv "$1" "$blobs/$sum"
}

# finish: ends the started processes and removes all files, called by trap. A process or cgroup that
# is left is a failure.
finish() {
  trap - EXIT
  for pid in $started; do
    kill "$pid" 2>/dev/null
    within 15 gone "$pid" || kill -9 "$pid" 2>/dev/null
  done
  "$PROGRAMS/nrictl" --config "$WORK/config.toml" stop >/dev/null 2>&1
  ok 'no nrid is left' within 5 not "$PROGRAMS/nrictl" --config "$WORK/config.toml" status
  ok 'no record is left' same "" "$(find "$WORK/nri/containers" "$WORK/nri/pods" "$WORK/nri/exec" -type f 2>/dev/null)"
  ok 'no process is left' within 5 not ours
  # After a failure: kills processes with our directory in their command line, and containers.
  ours | while read -r pid; do kill -9 "$pid"; done
  cat /sys/fs/cgroup/*/nri-extra/*/cgroup.procs /sys/fs/cgroup/nri-extra/*/cgroup.procs 2>/dev/null | sort -u | while read -r pid; do kill -9 "$pid" 2>/dev/null; done
  find /sys/fs/cgroup -depth -type d \( -name nri-extra -o -path '*/nri-extra/*' -o -name buildkit \) -exec rmdir {} + 2>/dev/null
  ok 'no cgroup is left' same '' "$(find /sys/fs/cgroup -type d -path '*/nri-extra/*' 2>/dev/null)"
  [ $failed -eq 0 ] || [ -z "${KEEP:-}" ] || { echo "kept: $WORK"; exit $failed; }
  cut -d' ' -f5 /proc/self/mountinfo | grep "^$WORK/" | sort -r | while read -r place; do umount -l "$place"; done
  rm -rf "$WORK"
  exit $failed
}
# ours: prints the ids of processes with our directory in their command line
ours() {
  for place in /proc/[0-9]*; do
    [ "${place#/proc/}" = $$ ] || ! grep -qaF "$WORK" "$place/cmdline" 2>/dev/null || echo "${place#/proc/}"
  done | grep .
}
gone() { ! kill -0 "$1" 2>/dev/null; }
not() { ! "$@"; }
quiet() { "$@" >/dev/null; }

mkdir -p "$WORK/plugins" "$WORK/conf" "$WORK/bin"
forget
cat >"$WORK/config.toml" <<T
state_dir = "$WORK/nri"
plugin_path = "$WORK/plugins"
plugin_config_path = "$WORK/conf"
plugin_request_timeout = "10s"
[runtime]
path = "$REAL"
[[plugin]]
match = "judge"
on_failure = "fail"
required = false
T
# Where root cannot lower oom_score_adj, as in some containers, a runtime fails with the value that
# engines set for sandboxes, so the value is replaced by 0.
meek=
sh -c 'echo -1 >/proc/self/oom_score_adj' 2>/dev/null || meek=1
# The runtime for the engine: records the verb and the command line, and executes the wrapper.
cat >"$RUNTIME" <<S
#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
bundle=. verb= next=
for a in "\$@"; do
  case \$next in --bundle | -b) bundle=\$a ;; esac
  case \$a in --bundle=*) bundle=\${a#*=} ;; esac
  case \$a in create | run | start | exec | update | kill | delete | state | pause | resume | features | events | ps | list) verb=\${verb:-\$a} ;; esac
  next=\$a
done
echo "\${verb:-none} \$*" >>"$CALLS"
if [ -n "${RECORD:-}" ]; then
  n=\$(date +%s%N)
  echo "\$n [\$(cat /proc/\$PPID/comm) cwd=\$PWD] \$*" >>"${RECORD:-}/calls.txt"
  case \$verb in create | run) cp "\$bundle/config.json" "${RECORD:-}/\$n-\$verb.config.json" ;; esac
fi
case \$verb in create | run) [ -z "$meek" ] || sed -i 's/\("oomScoreAdj": *\)-[0-9]*/\10/' "\$bundle/config.json" ;; esac
exec "$PROGRAMS/nri-container-runtime" --nri-config "$WORK/config.toml" "\$@"
S
chmod 755 "$RUNTIME"
[ -z "${RECORD:-}" ] || mkdir -p "$RECORD"
trap finish EXIT
trap 'exit 130' INT TERM HUP PIPE
