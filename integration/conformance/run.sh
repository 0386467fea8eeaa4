#!/bin/bash
# run.sh [--document FILE] [--vectors COUNT] [--only TEXT] [TARGET...]: starts each runtime with
# everything private, runs the cases of nri-conformance at it, and prints the matrix. Exits with 1 if
# a case failed at one of our own targets.
#   runc crun                    our wrapper on the host's runtime, called as engines do
#   docker podman containerd     our wrapper in engines of Debian 13 (integration/engines/setup.sh)
#   containerd-1.7 containerd-2  containerd's own NRI, in Debian 13 and sid
#   cri-o moby-29                their own NRI (integration/engines/extra/build.sh)
# Without targets: all; the last two only where they have been built. Engines with Docker's command
# line run 60 vectors of each group, since each takes three calls of the client. The document is
# written to FILE, the results to target/conformance/TARGET.json.
set -u
here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# The namespace in which runtimes and engines run on a machine with hybrid cgroups.
if [ -z "${NRI_CONFORMANCE_NAMESPACE:-}" ]; then
  export NRI_CONFORMANCE_NAMESPACE=1
  exec "$top/integration/cgroups.sh" unshare -m --propagation private "$0" "$@"
fi
TARGET=${CARGO_TARGET_DIR:-$top/target}
PROGRAMS=${PROGRAMS:-$TARGET/debug}
ENGINES=${NRI_ENGINES:-/var/tmp/nri-engines}
EXTRA=${EXTRA:-$TARGET/engines-extra}
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
document='' selection=()
while [ $# -gt 0 ]; do
  case $1 in
    --document) document=$2; shift 2 ;;
    --vectors | --only) selection+=("$1" "$2"); shift 2 ;;
    -*) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
    *) break ;;
  esac
done
[ "$(id -u)" = 0 ] || { echo 'run.sh: containers need root' >&2; exit 2; }
if [ $# -eq 0 ]; then
  set -- runc crun docker podman containerd containerd-1.7 containerd-2
  [ ! -x "$EXTRA/crio" ] || set -- "$@" cri-o
  [ ! -x "$EXTRA/docker29/dockerd" ] || set -- "$@" moby-29
fi
few=()
[ ${#selection[@]} -gt 0 ] || few=(--vectors 60)
OUT=$TARGET/conformance
mkdir -p "$OUT"
OURS=''   # whether the NRI under test is ours
WORK=''   # directory of the running target

# within SECONDS CMD...: repeats CMD until it succeeds
within() {
  local n=$(($1 * 10))
  shift
  while ! "$@" >/dev/null 2>&1; do
    n=$((n - 1))
    [ $n -gt 0 ] || return 1
    sleep 0.1
  done
}
has_ended() { ! kill -0 "$1" 2>/dev/null; }

# conformance OPTION...: runs the cases
conformance() {
  "$PROGRAMS/nri-conformance" run --label "$target" --json "$OUT/$target.json" \
    "${selection[@]}" "$@" 2>>"$OUT/$target.log" | tail -1
}

# node REAL: configures our programs with this low-level runtime, and starts nrid. RUNTIME is the
# runtime for engines, NRI the socket.
node() {
  mkdir -p "$WORK"/{plugins,conf,runtime,root}
  cat >"$WORK/config.toml" <<T
state_dir = "$WORK/s"
plugin_path = "$WORK/plugins"
plugin_config_path = "$WORK/conf"
[runtime]
path = "$1"
T
  RUNTIME=$WORK/runtime/runc NRI=$WORK/s/nri.sock OURS=1
  # The bundle that the runtime gets in place of the engine's.
  CONFIG=$WORK/s/bundles/{id}-*/config.json
  printf '#!/bin/sh\nexec %s --nri-config %s "$@"\n' "$PROGRAMS/nri-container-runtime" \
    "$WORK/config.toml" >"$RUNTIME"
  chmod 755 "$RUNTIME"
  "$PROGRAMS/nrictl" --config "$WORK/config.toml" start
}

# oci REAL: our wrapper, called as an engine calls runc
oci() {
  local real
  real=$(command -v "$1") || { echo "no $1; integration/setup.sh installs it" >&2; return 1; }
  node "$real" || return
  "$top/integration/bundle.sh" "$WORK/bundle" --root "$WORK/rootfs" || return
  conformance --driver oci --socket "$NRI" --rootfs "$WORK/rootfs" \
    --client "$RUNTIME --root $WORK/root"
}

docker() {
  node "$ENGINES/bin/trixie/runc" || return
  mkdir -p "$WORK/engine"
  cat >"$WORK/engine/daemon.json" <<J
{"runtimes": {"nri": {"path": "$RUNTIME"}}, "default-runtime": "nri"}
J
  "$top/integration/engines/dockerd.sh" start "$WORK/engine" trixie || return
  conformance --driver docker "${few[@]}" --socket "$NRI" \
    --client "$top/integration/engines/dockerd.sh client $WORK/engine" --oci-config "$CONFIG"
  "$top/integration/engines/dockerd.sh" stop "$WORK/engine"
}

podman() {
  node "$ENGINES/bin/trixie/crun" || return
  mkdir -p "$WORK/engine"
  cat >"$WORK/engine/engine.conf" <<T
runtime = "nri"
runtime_supports_json = ["crun", "runc", "nri"]
[engine.runtimes]
nri = ["$RUNTIME"]
T
  "$top/integration/engines/podman.sh" start "$WORK/engine" trixie || return
  conformance --driver docker "${few[@]}" --socket "$NRI" \
    --client "$top/integration/engines/podman.sh client $WORK/engine" --oci-config "$CONFIG"
  "$top/integration/engines/podman.sh" stop "$WORK/engine"
}

# containerd SUITE RUNTIME SOCKET CONFIG [--nri]: containerd of a suite with this runtime; SOCKET is
# the NRI under test, CONFIG the path of containers' config.json
containerd() {
  "$top/integration/engines/containerd.sh" start "$WORK/engine" "$1" "$2" "${@:5}" || return
  conformance --driver cri --socket "$3" --client "$ENGINES/bin/cri $WORK/engine/sock" \
    --oci-config "$4"
  "$top/integration/engines/containerd.sh" stop "$WORK/engine"
}

run() {
  local nri=$WORK/engine/nri.sock
  local tasks=$WORK/engine/state/io.containerd.runtime.v2.task/k8s.io/{id}/config.json
  case $target in
    runc | crun) oci "$target" ;;
    docker) docker ;;
    podman) podman ;;
    containerd) node "$ENGINES/bin/trixie/runc" && containerd trixie "$RUNTIME" "$NRI" "$CONFIG" ;;
    containerd-1.7) containerd trixie "$ENGINES/bin/trixie/runc" "$nri" "$tasks" --nri ;;
    containerd-2) containerd sid "$ENGINES/bin/sid/runc" "$nri" "$tasks" --nri ;;
    cri-o | moby-29) . "$here/extra.sh" && "$target" ;;
    *) echo "run.sh: no target $target" >&2; return 2 ;;
  esac
}

failed=0 results=()
for target in "$@"; do
  # Short, since paths of unix sockets are limited to 107 bytes.
  WORK=$(mktemp -d /tmp/nri-cf.XXXXXX) OURS=''
  rm -f "$OUT/$target.json"
  : >"$OUT/$target.log"
  printf '%s: ' "$target"
  run
  if [ -n "$OURS" ]; then
    cp "$WORK/s/nrid.log" "$OUT/$target.nrid.log" 2>/dev/null
    "$PROGRAMS/nrictl" --config "$WORK/config.toml" stop >/dev/null
  fi
  if [ ! -s "$OUT/$target.json" ]; then
    echo "$target: not run, see $OUT/$target.log"
    tail -3 "$OUT/$target.log"
    failed=1
  else
    results+=("$OUT/$target.json")
    [ -z "$OURS" ] || ! grep -q '"status": "fail"' "$OUT/$target.json" || failed=1
  fi
  cut -d' ' -f5 /proc/self/mountinfo | grep "^$WORK/" | sort -r |
    while read -r place; do umount -l "$place"; done
  rm -rf "$WORK"
done
[ ${#results[@]} -gt 0 ] || exit 1
"$PROGRAMS/nri-conformance" matrix "${results[@]}"
[ -z "$document" ] ||
  "$PROGRAMS/nri-conformance" matrix --document "${results[@]}" >"$document"
exit $failed
