#!/bin/bash
# setup.sh [--check] [GUEST...]
#   Installs guests with cgroup version 2 into $NRI_GUESTS (default /var/tmp/nri-guests, 0.5 GB): uml, Debian sid's User Mode Linux, which is
#   quick, and has the controllers cpu, io, memory and pids; qemu, Debian 13's emulator and cloud kernel, slow, with all controllers. Default: both.
#   Root, Debian 12 or newer. Packages are downloaded with an apt configuration of their own and unpacked; the programs use their own suite's
#   libraries. On the host itself it installs the tools for that, and systemd and dbus, which the guest with systemd has from the host. Each step
#   is done once; run it again after a failure. Logs: $NRI_GUESTS/log. --check only tells what is not installed, exit 1 when something is.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
check=
case ${1:-} in --check) check=1; shift ;; -*) usage ;; esac
[ $# -gt 0 ] || set -- uml qemu
if [ -n "$check" ]; then
  missing=()
  for g in "$@"; do [ -e "$NRI_GUESTS/done/$g" ] || missing+=("$g"); done
  [ ${#missing[@]} = 0 ] || { echo "missing: ${missing[*]}"; exit 1; }
  exit 0
fi
[ "$(id -u)" = 0 ] || die "needs root"
mkdir -p "$NRI_GUESTS"/{log,done,bin,root}

# step NAME FUNCTION ARGS...: once only; output goes to its log
step() {
  local name=$1 t=$SECONDS rc
  shift
  [ ! -e "$NRI_GUESTS/done/$name" ] || return 0
  # Not `if ! (...)`: there, set -e would be off inside.
  set +e
  (set -e; "$@") >"$NRI_GUESTS/log/$name" 2>&1
  rc=$?
  set -e
  [ $rc = 0 ] || { echo "$name: failed, see $NRI_GUESTS/log/$name" >&2; tail -5 "$NRI_GUESTS/log/$name" >&2; return 1; }
  touch "$NRI_GUESTS/done/$name"
  echo "$name: $((SECONDS - t)) s"
}

tools() {
  local p wanted=()
  for p in busybox-static patchelf xz-utils iproute2 dbus systemd; do
    dpkg-query -W -f '${db:Status-Status}\n' $p 2>/dev/null | grep -qx installed || wanted+=("$p")
  done
  [ ${#wanted[@]} -gt 0 ] || return 0
  local apt=(apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300)
  export DEBIAN_FRONTEND=noninteractive
  "${apt[@]}" install "${wanted[@]}" || { apt-get -q update && "${apt[@]}" install "${wanted[@]}"; }
}

# apt_of SUITE: an apt with its own lists and no packages installed, so that it sees all that something depends on
apt_of() {
  local d=$NRI_GUESTS/apt/$1 source key=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$d/lists/partial" "$d/cache/archives/partial"
  : >"$d/status"
  # The mirror of the host's own entry.
  # shellcheck disable=SC2016
  source=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CREATED_BY)|$(REPO_URI)' | sed -n 's/^Debian|main|Packages|//p' | grep -v security | head -1)
  [ -n "$source" ] || die "no entry of Debian's main component in the host's apt sources"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$source" "$1" >"$d/sources.sources"
  [ ! -e $key ] || printf 'Signed-By: %s\n' $key >>"$d/sources.sources"
  cat >"$d/apt.conf" <<C
Dir::Etc::SourceList "$d/sources.sources"; Dir::Etc::SourceParts "/dev/null"; Dir::State::Lists "$d/lists";
Dir::State::status "$d/status"; Dir::Cache "$d/cache"; APT::Get::List-Cleanup "0"; Acquire::Languages "none";
APT::Sandbox::User "root"; Acquire::Retries "3";
C
  APT_CONFIG=$d/apt.conf apt-get -q update
}

# unpack SUITE GUEST PACKAGE...: with all they depend on, below root/GUEST
unpack() {
  local d=$NRI_GUESTS/debs/$2 root=$NRI_GUESTS/root/$2 f
  export APT_CONFIG=$NRI_GUESTS/apt/$1/apt.conf
  shift 2
  rm -rf "$d"
  mkdir -p "$d/partial" "$root"
  apt-get -q -o Dir::Cache::archives="$d" install -y -d --no-install-recommends "$@"
  for f in "$d"/*.deb; do
    dpkg-deb --fsys-tarfile "$f" | tar -x -C "$root" --exclude='./usr/share/doc' --exclude='./usr/share/man' \
      --exclude='./usr/share/locale' --exclude='*/perl*' --exclude='*/gconv'
  done
  rm -rf "$d"
}

# own GUEST FILE: a copy in bin/GUEST that uses the libraries unpacked with it: by DT_RPATH, as DT_RUNPATH does not count for the libraries of
# libraries.
own() {
  local root=$NRI_GUESTS/root/$1 file=$BIN/$1/${2##*/} libraries loader
  mkdir -p "$BIN/$1"
  cp "$root/$2" "$file"
  libraries=$(echo "$root"/usr/lib/*-linux-gnu)
  loader=$(find "$libraries" -name "$(basename "$(patchelf --print-interpreter "$file")")" | head -1)
  patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$file"
}

guest_uml() {
  apt_of sid
  unpack sid uml user-mode-linux libc6
  own uml usr/bin/linux.uml
  rm -rf "$NRI_GUESTS/apt/sid"
}

guest_qemu() {
  apt_of trixie
  unpack trixie qemu qemu-system-x86 virtiofsd linux-image-cloud-amd64
  own qemu usr/bin/qemu-system-x86_64
  own qemu usr/libexec/virtiofsd
  rm -rf "$NRI_GUESTS/apt/trixie"
}

step tools tools
failed=
for g in "$@"; do
  case $g in
    uml | qemu) step "$g" "guest_$g" || failed=1 ;;
    *) die "no such guest: $g" ;;
  esac
done
[ -z "$failed" ] || exit 1
echo "guests in $NRI_GUESTS: $*"
