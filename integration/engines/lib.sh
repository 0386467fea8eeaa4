# shellcheck shell=bash disable=SC2034
# lib.sh: functions of the scripts in this directory, which source it. NRI_ENGINES is the directory
# where setup.sh installs engines (default /var/tmp/nri-engines; keep it short, since paths of unix
# sockets are limited to 107 bytes). BIN/SUITE/NAME is a program of a suite, IMAGES has the image
# archives. The caller chooses the directory DIR of a running engine.
NRI_ENGINES=${NRI_ENGINES:-/var/tmp/nri-engines}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
BIN=$NRI_ENGINES/bin
IMAGES=$NRI_ENGINES/img
export NRI_ENGINES
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

# usage: prints the comment block at the top of the calling script
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# suite NAME: dies unless setup.sh has installed that suite
suite() {
  [ -x "$BIN/$1/runc" ] || die "suite '$1' is not installed in $NRI_ENGINES (setup.sh --suites ...)"
}

# wait_for SECONDS CMD...: repeats CMD until it succeeds
wait_for() {
  local n=$(($1 * 20))
  shift
  while ! "$@" >/dev/null 2>&1 </dev/null; do
    n=$((n - 1))
    [ $n -gt 0 ] || return 1
    sleep 0.05
  done
}

has_ended() { ! kill -0 "$1"; }

# stop_pid FILE: ends the process with the id in FILE by SIGTERM, after 15 s by SIGKILL; removes
# FILE
stop_pid() {
  local p
  [ -s "$1" ] || return 0
  p=$(cat "$1")
  if kill "$p" 2>/dev/null; then wait_for 15 has_ended "$p" || kill -9 "$p"; fi
  rm -f "$1"
}

# daemon SUITE PIDFILE LOG CMD...: starts CMD detached, with a minimal environment and the programs
# of the suite first in PATH
daemon() {
  local suite=$1 pid=$2 log=$3
  shift 3
  (
    echo "$BASHPID" >"$pid"
    exec env -i PATH="$BIN/$suite:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
      HOME=/root LANG=C.UTF-8 setsid "$@" >>"$log" 2>&1 </dev/null
  ) &
}

# umount_below DIR: unmounts all mounts below DIR, deepest first
umount_below() {
  awk '{print $5}' /proc/self/mountinfo | grep "^$1/" | sort -r |
    while read -r m; do umount -l "$m" 2>/dev/null; done
  return 0
}
