#!/bin/bash
# uml.sh [--kernel GUEST] [--systemd] [--parameter WORD] CMD ARGS...
#   Runs CMD as root in User Mode Linux and exits with its status. The guest has the files of the
#   host, and its changes are discarded. It has all capabilities, 1 CPU, no network but lo, and
#   cgroup v2 with the controllers cpu, io, memory and pids. It boots in 3 s. SIGTERM to this script
#   ends the guest.
#   --systemd: systemd is PID 1 of the guest, so that runtimes can use the systemd cgroup driver; 7
#   s.
#   --kernel uml510: Linux 5.10 instead of the one of `setup.sh uml`.
#   --parameter WORD: of the kernel, such as swapaccount=0.
#   Environment: TIMEOUT=600 (s), MEM=2G, OUT=directory that is /out in the guest.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
mode=plain kernel=uml parameter=
while :; do
  case ${1:-} in
    --systemd) mode=systemd; shift ;;
    --kernel) kernel=${2:-}; shift 2 || usage ;;
    --parameter) parameter=${2:-}; shift 2 || usage ;;
    '' | -*) usage ;;
    *) break ;;
  esac
done
[ -x "$BIN/$kernel/linux.uml" ] || die "not installed: setup.sh $kernel"
modules=$(echo "$NRI_GUESTS/root/$kernel"/usr/lib/uml/modules/*/kernel)
prepare "$@"
timeout -k 5 "${TIMEOUT:-600}" "$BIN/$kernel/linux.uml" mem="${MEM:-2G}" uml_dir="$TMP/" umid=vm \
  root=/dev/root rootfstype=hostfs rootflags=/ ro con=null con0=fd:0,fd:1 quiet loglevel=1 \
  ${parameter:+"$parameter"} init="$HERE/init.sh" guest_mode="$mode" guest_out="$OUT" guest_modules="$modules" \
  </dev/null > >(sed -u -e 's/\r//g' -e '/reboot: /d') 2>"$TMP/err" &
vm=$!
trap 'kill $vm; wait; rm -rf "$TMP"; exit 143' TERM INT
wait $vm
finish
