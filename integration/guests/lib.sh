# shellcheck shell=bash disable=SC2034
# lib.sh: sourced by the scripts beside it. NRI_GUESTS is the directory where setup.sh installs the guests' kernels and the emulator
# (default /var/tmp/nri-guests); guests that run have a directory of their own below it.
NRI_GUESTS=${NRI_GUESTS:-/var/tmp/nri-guests}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
BIN=$NRI_GUESTS/bin
export NRI_GUESTS
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

# usage: prints the comment block at the top of the calling script
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# prepare CMD ARGS...: makes the directory TMP of a guest that is to run CMD in this directory, and OUT, which it sees as /out
prepare() {
  TMP=$(mktemp -d "$NRI_GUESTS/run.XXXXXX")
  OUT=${OUT:-$TMP/out}
  mkdir -p "$OUT"
  OUT=$(readlink -f "$OUT")
  rm -f "$OUT/rc"
  { printf 'cd %q || exit\n' "$PWD"; printf '%q ' "$@"; echo; } >"$OUT/cmd"
}

# finish: removes TMP, and exits as the command in the guest did
finish() {
  local rc
  rc=$(cat "$OUT/rc" 2>/dev/null) || { echo "$(basename "$0"): the guest died or took too long: $(tail -3 "$TMP/err")" >&2; rc=125; }
  rm -rf "$TMP"
  exit "$rc"
}
