#!/bin/bash
# setup.sh [--check] [GUEST...]
#   Installs guests with cgroup v2 into $NRI_GUESTS (default /var/tmp/nri-guests, 0.7 GB). Default:
#   uml, uml510 and qemu. uml is User Mode Linux of Debian sid: fast, with the controllers cpu, io,
#   memory and pids. uml510 is that of Debian 11, Linux 5.10.
#   qemu is the emulator and the cloud kernel of Debian 13: slow, with all controllers.
#   Needs root and Debian 12 or newer. Packages are unpacked; the programs use the libraries
#   of their suite. On the host the script installs the tools for these steps, and systemd and dbus,
#   which the systemd guest uses. Each step is done once; call the script again after a failure.
#   Logs are in $NRI_GUESTS/log.
#   --check only lists the missing guests, and exits with 1 if there are any.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../packages.sh" "$NRI_GUESTS"
check=
case ${1:-} in --check) check=1; shift ;; -*) usage ;; esac
[ $# -gt 0 ] || set -- uml uml510 qemu
if [ -n "$check" ]; then
  missing=()
  for g in "$@"; do [ -e "$NRI_GUESTS/done/$g" ] || missing+=("$g"); done
  [ ${#missing[@]} = 0 ] || { echo "missing: ${missing[*]}"; exit 1; }
  exit 0
fi
[ "$(id -u)" = 0 ] || die "needs root"

guest_uml() {
  unpack sid uml -- user-mode-linux libc6
  place uml usr/bin/linux.uml
}

# Linux 5.10. The program crashes after patchelf, but it runs with the host's newer libraries.
guest_uml510() {
  unpack bullseye uml510 -- user-mode-linux
  mkdir -p "$BIN/uml510"
  cp "$NRI_GUESTS/root/uml510/usr/bin/linux.uml" "$BIN/uml510/"
}

guest_qemu() {
  unpack trixie qemu -- qemu-system-x86 virtiofsd linux-image-cloud-amd64
  place qemu usr/bin/qemu-system-x86_64
  place qemu usr/libexec/virtiofsd
}

# The tools for unpacking, and the programs of the systemd guest.
step tools install_on_host busybox-static patchelf xz-utils iproute2 dbus systemd
[ -z "$failed" ] || exit 1
for g in "$@"; do
  case $g in
    uml | uml510 | qemu) step "$g" "guest_$g" ;;
    *) die "no such guest: $g" ;;
  esac
done
[ -z "$failed" ] || exit 1
echo "guests in $NRI_GUESTS: $*"
