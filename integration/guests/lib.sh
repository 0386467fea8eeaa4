# shellcheck shell=bash disable=SC2034
# lib.sh: functions of the scripts in this directory, which source it. NRI_GUESTS is the directory
# where setup.sh installs the kernels of the guests and the emulator (default /var/tmp/nri-guests).
# Each running guest has a separate directory below it.
NRI_GUESTS=${NRI_GUESTS:-/var/tmp/nri-guests}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
BIN=$NRI_GUESTS/bin
export NRI_GUESTS
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

# usage: prints the comment block at the top of the calling script
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# prepare CMD ARGS...: makes the directory TMP of a guest, and the directory OUT, which is /out in
# the guest, with a script that runs CMD in the present working directory
prepare() {
  TMP=$(mktemp -d "$NRI_GUESTS/run.XXXXXX")
  OUT=${OUT:-$TMP/out}
  mkdir -p "$OUT"
  OUT=$(readlink -f "$OUT")
  rm -f "$OUT/rc"
  { printf 'cd %q || exit\n' "$PWD"; printf '%q ' "$@"; echo; } >"$OUT/cmd"
}

# finish: removes TMP, and exits with the status of the command in the guest
finish() {
  local rc
  rc=$(cat "$OUT/rc" 2>/dev/null) || {
    echo "$(basename "$0"): the guest crashed or timed out: $(tail -3 "$TMP/err")" >&2
    rc=125
  }
  rm -rf "$TMP"
  exit "$rc"
}

# stage TEST PROGRAM...: makes the directory STAGE, in cargo's layout, with copies of a test program
# of this crate and of these programs, because a build on the host may replace them during a run.
# Changes to the directory of the tests.
stage() {
  local file name test=
  TARGET=$(cd "$HERE/../../target" && pwd -P)
  # The newest one, if there are several.
  for file in "$TARGET/debug/deps/$1"-*; do
    [ ! -x "$file" ] || { [ -n "$test" ] && [ "$test" -nt "$file" ]; } || test=$file
  done
  [ -n "$test" ] || die "no test: cargo test --workspace --test $1 --no-run"
  STAGE=$(mktemp -d "$NRI_GUESTS/programs.XXXXXX")
  trap 'rm -rf "$STAGE"' EXIT
  mkdir -p "$STAGE"/debug/{deps,examples}
  cp "$test" "$STAGE/debug/deps/$1" || exit
  shift
  for name in "$@"; do cp "$TARGET/debug/$name" "$STAGE/debug/$name" || exit; done
  cd "$HERE/.." || exit
}

# unstage TEST: counts the skipped tests of TEST, and exits with the status of the last command
unstage() {
  local status=$?
  [ ! -e "$STAGE/skipped.txt" ] ||
    sed "s/^SKIPPED /SKIPPED in $1: /" "$STAGE/skipped.txt" >>"$TARGET/skipped.txt"
  exit $status
}
