#!/bin/bash
# setup.sh [--check] [GUEST...]
#   Installs guests with cgroup v2 into $NRI_GUESTS (default /var/tmp/nri-guests, 0.7 GB). Default:
#   uml, uml510 and qemu. uml is User Mode Linux of Debian sid: fast, with the controllers cpu, io,
#   memory and pids. uml510 is that of Debian 11, Linux 5.10.
#   qemu is the emulator and the cloud kernel of Debian 13: slow, with all controllers.
#   Needs root and Debian 12 or newer. Packages are downloaded with a separate apt configuration and
#   unpacked; the programs use the libraries of their suite. On the host the script installs the
#   tools for these steps, and systemd and dbus, which the systemd guest uses. Each step is done
#   once; call the script again after a failure. Logs are in $NRI_GUESTS/log.
#   --check only lists the missing guests, and exits with 1 if there are any.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
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
mkdir -p "$NRI_GUESTS"/{log,done,bin,root}

# step NAME FUNCTION ARGS...: runs a step that was not done yet, with its output in a log
step() {
  local name=$1 t=$SECONDS rc
  shift
  [ ! -e "$NRI_GUESTS/done/$name" ] || return 0
  # The function is not called in a condition, because the shell ignores set -e there.
  set +e
  (set -e; "$@") >"$NRI_GUESTS/log/$name" 2>&1
  rc=$?
  set -e
  if [ $rc != 0 ]; then
    echo "$name: failed, see $NRI_GUESTS/log/$name" >&2
    tail -5 "$NRI_GUESTS/log/$name" >&2
    return 1
  fi
  touch "$NRI_GUESTS/done/$name"
  echo "$name: $((SECONDS - t)) s"
}

# tools: installs the tools for unpacking, and the programs of the systemd guest
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

# apt_of SUITE: makes an apt configuration with separate lists and no installed packages, so that
# apt resolves all dependencies
apt_of() {
  local d=$NRI_GUESTS/apt/$1 source key=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$d/lists/partial" "$d/cache/archives/partial"
  : >"$d/status"
  # The mirror is that of the host's apt sources.
  # shellcheck disable=SC2016
  source=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CREATED_BY)|$(REPO_URI)' |
    sed -n 's/^Debian|main|Packages|//p' | grep -v security | head -1)
  [ -n "$source" ] || die "no entry of Debian's main component in the host's apt sources"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$source" "$1" >"$d/sources.sources"
  [ ! -e $key ] || printf 'Signed-By: %s\n' $key >>"$d/sources.sources"
  cat >"$d/apt.conf" <<C
Dir::Etc::SourceList "$d/sources.sources";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$d/lists";
Dir::State::status "$d/status";
Dir::Cache "$d/cache";
APT::Get::List-Cleanup "0";
Acquire::Languages "none";
APT::Sandbox::User "root";
Acquire::Retries "3";
C
  APT_CONFIG=$d/apt.conf apt-get -q update
}

# unpack SUITE GUEST PACKAGE...: unpacks packages and their dependencies below root/GUEST
unpack() {
  local d=$NRI_GUESTS/debs/$2 root=$NRI_GUESTS/root/$2 f
  export APT_CONFIG=$NRI_GUESTS/apt/$1/apt.conf
  shift 2
  rm -rf "$d"
  mkdir -p "$d/partial" "$root"
  apt-get -q -o Dir::Cache::archives="$d" install -y -d --no-install-recommends "$@"
  for f in "$d"/*.deb; do
    dpkg-deb --fsys-tarfile "$f" |
      tar -x -C "$root" --exclude='./usr/share/doc' --exclude='./usr/share/man' \
        --exclude='./usr/share/locale' --exclude='*/perl*' --exclude='*/gconv'
  done
  rm -rf "$d"
}

# place GUEST FILE: copies a program to bin/GUEST and sets it to use the unpacked libraries: by
# DT_RPATH, since DT_RUNPATH does not apply to dependencies of libraries.
place() {
  local root=$NRI_GUESTS/root/$1 file=$BIN/$1/${2##*/} libraries loader
  mkdir -p "$BIN/$1"
  cp "$root/$2" "$file"
  libraries=$(echo "$root"/usr/lib/*-linux-gnu)
  loader=$(basename "$(patchelf --print-interpreter "$file")")
  loader=$(find "$libraries" -name "$loader" | head -1)
  patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$file"
}

guest_uml() {
  apt_of sid
  unpack sid uml user-mode-linux libc6
  place uml usr/bin/linux.uml
  rm -rf "$NRI_GUESTS/apt/sid"
}

# Linux 5.10. The program crashes after patchelf, but it runs with the host's newer libraries.
guest_uml510() {
  apt_of bullseye
  unpack bullseye uml510 user-mode-linux
  mkdir -p "$BIN/uml510"
  cp "$NRI_GUESTS/root/uml510/usr/bin/linux.uml" "$BIN/uml510/"
  rm -rf "$NRI_GUESTS/apt/bullseye"
}

guest_qemu() {
  apt_of trixie
  unpack trixie qemu qemu-system-x86 virtiofsd linux-image-cloud-amd64
  place qemu usr/bin/qemu-system-x86_64
  place qemu usr/libexec/virtiofsd
  rm -rf "$NRI_GUESTS/apt/trixie"
}

step tools tools
failed=
for g in "$@"; do
  case $g in
    uml | uml510 | qemu) step "$g" "guest_$g" || failed=1 ;;
    *) die "no such guest: $g" ;;
  esac
done
[ -z "$failed" ] || exit 1
echo "guests in $NRI_GUESTS: $*"
