# shellcheck shell=sh
# lib.sh: sourced by the scripts of the engines beside it. It makes a place where nothing is shared with the machine's own engines: the
# wrapper with a configuration, state, plugins and a journal of its own, an image, and functions to check and to clean up.
# Variables: WORK (the place), RUNTIME (what an engine is given as its OCI runtime), JOURNAL (what the plugin heard), CALLS (how the
# engine called the runtime), LOG (of the engine). RECORD=DIR in the environment keeps command lines and documents there.
set -u
PATH=${PATH:-}:/usr/local/sbin:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
TARGET=${CARGO_TARGET_DIR:-$top/target}
PROGRAMS=${PROGRAMS:-$TARGET/debug}
ENGINES=${ENGINES:-$TARGET/engines-extra}
# limitation WHY: what is left out because engine and runtime cannot do it, the wrapper or not; counted by integration/skipped.sh
limitation() { echo "SKIPPED engines-extra $(basename "$0" .sh): $1" | tee -a "$TARGET/skipped.txt"; }

# skipped WHY: ends, and is counted too
skipped() {
  limitation "$1"
  [ "${CI:-}" != true ] || exit 1
  exit 0
}

REAL=$(command -v "${REAL:-runc}") || skipped "no ${REAL:-runc}"
# Sockets lie below it, whose paths must be short.
WORK=$(mktemp -d /tmp/nri-extra.XXXXXX)
JOURNAL=$WORK/journal CALLS=$WORK/calls RUNTIME=$WORK/nri-runc LOG=$WORK/engine.log
failed=0 started=

# need PROGRAM...: skips this engine where something is not there
need() {
  for program in "$@"; do
    command -v "$program" >/dev/null && continue
    trap - EXIT
    rm -rf "$WORK"
    skipped "no $program"
  done
}

# ok TEXT CMD...: one line for one check
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

# same WANTED SEEN, holds TEXT PART: what `ok` checks most
same() { [ "$1" = "$2" ] || { printf '  wanted: %s\n  seen:   %s\n' "$1" "$2"; false; }; }
holds() { case $1 in *"$2"*) ;; *) printf '  wanted: %s\n  in:     %s\n' "$2" "$1"; false ;; esac; }

# within SECONDS CMD...: tries until CMD succeeds
within() {
  n=$(($1 * 10))
  shift
  while ! "$@" >/dev/null 2>&1; do
    n=$((n - 1))
    [ $n -gt 0 ] || return 1
    sleep 0.1
  done
}

# background CMD...: starts CMD with its output in $LOG; it is ended with the script
background() {
  setsid "$@" >>"$LOG" 2>&1 </dev/null &
  started="$! $started"
}

# plugins TOML [JSON]: from now on the plugins are `adjust` with TOML and, if given, `gostub`, which is told JSON and must agree
plugins() {
  "$PROGRAMS/nrictl" --config "$WORK/config.toml" stop >/dev/null 2>&1
  rm -f "$WORK"/plugins/* "$WORK"/conf/*
  cp "$PROGRAMS/examples/adjust" "$WORK/plugins/10-adjust"
  printf 'log = "%s"\n%s\n' "$JOURNAL" "$1" >"$WORK/conf/10-adjust.conf"
  [ $# -eq 1 ] && return
  cp "$TARGET/integration/gostub" "$WORK/plugins/20-judge"
  echo "$2" >"$WORK/conf/20-judge.conf"
}

# heard [CONTAINER]: the events of a container (or of all) and its pod so far, in one line
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

# forget: the next check starts with an empty journal and no calls
forget() { : >"$JOURNAL"; : >"$CALLS"; }

# calls: the verbs that the engine called so far, in one line
calls() { sed 's/ .*//' "$CALLS" | tr '\n' ' ' | sed 's/ $//'; }

# image DIR: an OCI layout with one image, a static busybox that runs /pause, for sandboxes; its digest is in DIR/digest
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

# put FILE: into $blobs; $digest and $size say which it is
put() {
  sum=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  digest=sha256:$sum
  mv "$1" "$blobs/$sum"
}

# finish: ends what was started and leaves nothing; to be called by trap. What still runs or is mounted is a failure.
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
  # Only where something failed: whatever is left of this run, known by our folder in its command line, and containers.
  ours | while read -r pid; do kill -9 "$pid"; done
  cat /sys/fs/cgroup/*/nri-extra/*/cgroup.procs /sys/fs/cgroup/nri-extra/*/cgroup.procs 2>/dev/null | sort -u | while read -r pid; do kill -9 "$pid" 2>/dev/null; done
  find /sys/fs/cgroup -depth -type d \( -name nri-extra -o -path '*/nri-extra/*' -o -name buildkit \) -exec rmdir {} + 2>/dev/null
  ok 'no cgroup is left' same '' "$(find /sys/fs/cgroup -type d -path '*/nri-extra/*' 2>/dev/null)"
  [ $failed -eq 0 ] || [ -z "${KEEP:-}" ] || { echo "kept: $WORK"; exit $failed; }
  cut -d' ' -f5 /proc/self/mountinfo | grep "^$WORK/" | sort -r | while read -r place; do umount -l "$place"; done
  rm -rf "$WORK"
  exit $failed
}
# processes with our folder in their command line
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
# Where root may not lower oom_score_adj, as in some containers, a runtime fails with what engines want for sandboxes: there it is left out.
meek=
sh -c 'echo -1 >/proc/self/oom_score_adj' 2>/dev/null || meek=1
# What engines call: notes the verb and the command line, and becomes the wrapper.
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
