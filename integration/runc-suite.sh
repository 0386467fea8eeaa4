#!/bin/bash
# runc-suite.sh RUNC_SOURCE_DIR RUNC_BINARY [MODE...]
#   Runs the integration tests of runc, from a checkout of its source, in several modes and compares
#   the outcomes. Modes: bare (RUNC_BINARY itself, always run), wrapper (nri-container-runtime in
#   its place, no plugin), plugin (with the example plugin `adjust`, which logs and annotates
#   containers). Default: all. A test with different outcomes is run alone several times in both
#   modes; if it still differs, and reasons.txt has no reason, the exit code is 1.
#   Needs root, bats, jq, gawk, gcc, Go, xz, a static busybox and our programs; uses debootstrap,
#   libseccomp-dev and criu if they are installed.
#   Environment:
#     FILES='a.bats b.bats'  files of tests (all)
#     FILTER=REGEXP          names of tests (all)
#     REPEAT=5               repetitions of a test with different outcomes
#     TEST_TIMEOUT=60        seconds; 300 in a guest
#     OUT=DIR                outcomes and logs (target/integration/runc-suite/out)
#     BIN=DIR                our programs (target/debug)
#     GUEST=uml              runs in a guest with cgroup v2 (see guests/setup.sh)
#   The tests run in private namespaces and cgroups, which are removed afterwards (see enter.sh).
#   Only the images are kept, in target.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd -P)
target=${CARGO_TARGET_DIR:-$HERE/../target}
cache=$target/integration/runc-suite
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
die() { echo "runc-suite.sh: $*" >&2; exit 2; }

[ $# -ge 2 ] || usage
source=$(readlink -f "$1") runc=$(readlink -f "$2")
shift 2
[ $# -gt 0 ] || set -- wrapper plugin
others=()
for m in "$@"; do
  case $m in bare) ;; wrapper | plugin) others+=("$m") ;; *) usage ;; esac
done
[ "$(id -u)" = 0 ] || die 'needs root'
[ -e "$source/tests/integration/helpers.bash" ] || die "no source of runc in $source"
[ -x "$runc" ] || die "no program $runc"

# shellcheck source=runc-suite/stage.sh
. "$HERE/runc-suite/stage.sh"
# shellcheck source=runc-suite/compare.sh
. "$HERE/runc-suite/compare.sh"

running=
stage=
work=
clean() {
  trap '' INT TERM HUP
  if [ -n "$running" ]; then
    kill -- "-$running"
    wait "$running"
  fi
  [ -z "$work" ] || rm -rf "$work"
  [ -z "$stage" ] || [ -n "${NRI_SUITE_STAGE:-}" ] || rm -rf "$stage"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

# run_group CMD...: runs CMD in a separate process group and waits for it; if this script is killed,
# `clean` kills the group
run_group() {
  local rc
  setsid "$@" &
  running=$!
  wait "$running"
  rc=$?
  running=
  return $rc
}

if [ -n "${NRI_SUITE_STAGE:-}" ]; then # this script runs in the guest
  stage=$NRI_SUITE_STAGE out=$OUT
else
  out=${OUT:-$cache/out}
  rm -rf "$out"
  mkdir -p "$out" || exit 2
  out=$(cd "$out" && pwd -P)
  stage=$(mktemp -d)
  make_stage || exit 2
  if [ "${GUEST:-}" = uml ]; then
    settings=(FILES="${FILES:-}" FILTER="${FILTER:-}" REPEAT="${REPEAT:-5}")
    settings+=(TEST_TIMEOUT="${TEST_TIMEOUT:-300}" PATH="$PATH")
    OUT=$out TIMEOUT=${TIMEOUT:-14400} MEM=${MEM:-4G} run_group \
      "$HERE/guests/uml.sh" env OUT=/out NRI_SUITE_OUT="$out" NRI_SUITE_STAGE="$stage" \
      "${settings[@]}" "$0" "$source" "$runc" bare "${others[@]}"
    exit
  fi
fi
# Working directory of the tests, with devices and sockets of containers.
work=$(mktemp -d)
chmod a+x "$work"

# suite MODE TAP [FILE FILTER]: runs the tests
broken=0
suite() {
  local mode=$1 tap=$2 files=${3:-${FILES:-}} filter=${4:-${FILTER:-}}
  FILES=$files FILTER=$filter run_group "$HERE/cgroups.sh" "$HERE/runc-suite/enter.sh" \
    "nri-runc-suite-$$-$mode" \
    "$HERE/runc-suite/inside.sh" "$stage" "$work" "$mode" "$runc" "$tap" ||
    { echo "runc-suite.sh: $mode: exit status $?" >&2; broken=1; }
}

"$runc" --version | head -1
[ -e /sys/fs/cgroup/cgroup.controllers ] && echo 'cgroup version 2' || echo 'cgroup version 1'
for m in bare "${others[@]}"; do
  t=$SECONDS
  suite "$m" "$out/$m.tap"
  [ "$m" = bare ] || cp "$work/$m/nrid.log" "$out/$m.nrid.log" 2>/dev/null
  echo "$m: $(counts "$out/$m.tap"), $((SECONDS - t)) s"
  # Failures that are the same in all modes show nothing.
  if [ "$m" = bare ] && [ -z "${FILES:-}${FILTER:-}" ] &&
    [ "$(grep -c '^not ok' "$out/bare.tap")" -gt "$(grep '^ok' "$out/bare.tap" | grep -vc '# skip')" ]
  then
    die "most tests fail on bare runc: $(grep -A 5 -m 1 '^not ok' "$out/bare.tap")"
  fi
done
compare_all && [ $broken = 0 ]
