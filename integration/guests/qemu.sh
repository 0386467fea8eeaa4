#!/bin/bash
# qemu.sh [--systemd] CMD ARGS...
#   Runs CMD like uml.sh, but in QEMU without hardware virtualization, with 2 CPUs and with all
#   controllers of cgroup v2 (cpuset, cpu, io, memory, hugetlb, pids and others). It is slow: it
#   boots in 10 s, and each process takes seconds to start.
#   Environment: TIMEOUT=1800 (s), MEM=4G, OUT as for uml.sh; NODES=2: 16 CPUs on 2 memory nodes,
#   each a socket of 4 cores with 2 threads.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
mode=qemu
case ${1:-} in --systemd) mode=qemu-systemd; shift ;; esac
case ${1:-} in '' | -*) usage ;; esac
[ -x "$BIN/qemu/qemu-system-x86_64" ] || die "not installed: setup.sh qemu"
root=$NRI_GUESTS/root/qemu mem=${MEM:-4G}
kernel=$(echo "$root"/boot/vmlinuz-*) modules=$(echo "$root"/usr/lib/modules/*/kernel)
prepare "$@"
started=()
# shellcheck disable=SC2317 # called by trap
stop() { kill "${started[@]}" 2>/dev/null; wait; }
trap stop EXIT
trap 'stop; rm -rf "$TMP"; exit 143' TERM INT

# share NAME DIR OPTIONS...: starts a server of DIR, which the guest can mount
share() {
  "$BIN/qemu/virtiofsd" --socket-path="$TMP/$1.sock" --shared-dir="$2" --sandbox=none \
    --rlimit-nofile=0 "${@:3}" >"$TMP/$1.log" 2>&1 &
  started+=($!)
}
share root / --readonly --no-announce-submounts --cache=auto --inode-file-handles=never
share out "$OUT"
for _ in $(seq 200); do
  if [ -S "$TMP/root.sock" ] && [ -S "$TMP/out.sock" ]; then break; fi
  sleep 0.05
done
{ [ -S "$TMP/root.sock" ] && [ -S "$TMP/out.sock" ]; } ||
  die "virtiofsd did not start: $(cat "$TMP"/*.log)"
if [ "${NODES:-1}" = 2 ]; then
  half=$((${mem%G} / 2))G
  machine=(
    -smp "16,sockets=2,cores=4,threads=2"
    -object "memory-backend-memfd,id=mem0,size=$half,share=on"
    -object "memory-backend-memfd,id=mem1,size=$half,share=on"
    -numa "node,nodeid=0,cpus=0-7,memdev=mem0" -numa "node,nodeid=1,cpus=8-15,memdev=mem1"
    -numa "dist,src=0,dst=1,val=20"
  )
else
  machine=(
    -smp 2
    -object "memory-backend-memfd,id=mem,size=$mem,share=on" -numa "node,memdev=mem"
  )
fi
append="console=ttyS0 quiet loglevel=1 panic=-1 root=hostroot rootfstype=virtiofs ro"
append="$append init=$HERE/init.sh guest_mode=$mode guest_out=/ guest_modules=$modules"
timeout -k 5 "${TIMEOUT:-1800}" "$BIN/qemu/qemu-system-x86_64" \
  -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" -accel tcg -cpu max -m "$mem" "${machine[@]}" \
  -nodefaults -no-reboot -display none -serial stdio \
  -chardev socket,id=c0,path="$TMP/root.sock" -device vhost-user-fs-pci,chardev=c0,tag=hostroot \
  -chardev socket,id=c1,path="$TMP/out.sock" -device vhost-user-fs-pci,chardev=c1,tag=out \
  -kernel "$kernel" -append "$append" \
  </dev/null > >(sed -u -e 's/\r//g' -e '/reboot: /d') 2>"$TMP/err" &
started+=($!)
wait $!
finish
