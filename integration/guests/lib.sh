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
