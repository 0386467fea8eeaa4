#!/bin/bash
# setup.sh [--suites "bookworm trixie sid"] [--check]
#   Installs container engines of Debian's suites side by side into $NRI_ENGINES (default /var/tmp/nri-engines, about 0.6 GB a suite), for
#   tests/engines: containerd 1.6, 1.7 and 2.x, Docker 20, 26 and 28, Podman 4.3 and 5.x, with their runc, crun, conmon and catatonit; images; and a client
#   of the container runtime interface, built with Go (trixie's, where there is none). Root, Debian 12 or newer. Nothing is started, and
#   nothing of the host's own engines is touched: packages are downloaded with an apt configuration of their own and unpacked; what is linked
#   with a C library is given that of its own suite. On the host itself it installs the tools for that. Each step is done once; run it again
#   after a failure. Logs: $NRI_ENGINES/log.
#   --check only tells what is not installed, exit 1 when something is.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
suites='bookworm trixie sid' check=
while [ $# -gt 0 ]; do
  case $1 in
    --suites) [ $# -ge 2 ] || usage; suites=${2//,/ }; shift 2 ;;
    --check) check=1; shift ;;
    *) usage ;;
  esac
done
read -ra wanted <<<"$suites"
if [ -n "$check" ]; then
  missing=()
  for s in "${wanted[@]}"; do [ -e "$NRI_ENGINES/done/$s" ] && [ -e "$NRI_ENGINES/done/$s-catatonit" ] || missing+=("$s"); done
  [ ${#missing[@]} = 0 ] || { echo "missing: ${missing[*]}"; exit 1; }
  exit 0
fi
[ "$(id -u)" = 0 ] || die "needs root"
mkdir -p "$NRI_ENGINES"/{log,done,bin,root,img}

# step NAME FUNCTION ARGS...: once only; output goes to its log. When it fails, failed is set, and the next one may go on.
failed=
step() {
  local name=$1 t=$SECONDS log=$NRI_ENGINES/log/$1
  shift
  [ ! -e "$NRI_ENGINES/done/$name" ] || return 0
  # In the background and waited for: in a condition, set -e would be off for all that the function does.
  (set -e; "$@") >"$log" 2>&1 &
  if wait $!; then
    touch "$NRI_ENGINES/done/$name"
    echo "$name: $((SECONDS - t)) s"
  else
    echo "$name: failed, see $log, which ends:" >&2
    tail -5 "$log" >&2
    failed=1
  fi
}

# What unpacking needs, and what engines call: ip, iptables. The last one is Podman's configuration of registries and policies.
tools() {
  local p
  for p in busybox-static patchelf xz-utils iproute2 iptables golang-github-containers-common; do
    dpkg-query -W -f '${db:Status-Status}\n' $p 2>/dev/null | grep -qx installed || set -- "$@" $p
  done
  [ $# = 0 ] || install_on_host "$@"
}

install_on_host() {
  local apt=(apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300)
  export DEBIAN_FRONTEND=noninteractive
  "${apt[@]}" install "$@" || { apt-get -q update && "${apt[@]}" install "$@"; }
}

# apt_of SUITE: an apt with its own lists and no packages installed, so that it sees all that something depends on
apt_of() {
  local d=$NRI_ENGINES/apt/$1 source key=/usr/share/keyrings/debian-archive-keyring.gpg
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

# unpack SUITE ROOT [PACKAGE...] -- [PACKAGE...]: the first ones alone, the second with all they depend on
unpack() {
  local d=$NRI_ENGINES/debs/$2 root=$NRI_ENGINES/root/$2 alone=() f
  export APT_CONFIG=$NRI_ENGINES/apt/$1/apt.conf
  shift 2
  rm -rf "$d"
  mkdir -p "$d/partial" "$root"
  while [ "$1" != -- ]; do alone+=("$1"); shift; done
  shift
  [ ${#alone[@]} = 0 ] || (cd "$d" && apt-get -q download "${alone[@]}")
  [ $# = 0 ] || apt-get -q -o Dir::Cache::archives="$d" install -y -d --no-install-recommends "$@"
  for f in "$d"/*.deb; do
    dpkg-deb --fsys-tarfile "$f" | tar -x -C "$root" --exclude='./usr/share/doc' --exclude='./usr/share/man' \
      --exclude='./usr/share/locale' --exclude='./usr/share/perl*' --exclude='./usr/lib/*-linux-gnu/perl*' --exclude='*/gconv'
  done
  rm -rf "$d"
}

# place SUITE FILE...: the first FILE that there is, in the suite's bin. A program with a C library gets a copy that uses the suite's own:
# by DT_RPATH, as DT_RUNPATH does not count for the libraries of libraries.
place() {
  local suite=$1 root=$NRI_ENGINES/root/$1 f loader libraries
  shift
  for f in "$@"; do [ -x "$root/$f" ] && break; done
  [ -x "$root/$f" ] || die "$suite has no $*"
  mkdir -p "$BIN/$suite"
  if loader=$(patchelf --print-interpreter "$root/$f" 2>/dev/null); then
    libraries=$(echo "$root"/usr/lib/*-linux-gnu)
    loader=$(find "$root" -name "$(basename "$loader")" -type f -print -quit)
    cp "$root/$f" "$BIN/$suite/"
    patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries:$root/lib/$(basename "$libraries")" "$BIN/$suite/$(basename "$f")"
  else
    ln -sfn "$root/$f" "$BIN/$suite/"
  fi
}

engines() { # SUITE
  local more=(docker-cli) p
  case $1 in bookworm) more=() ;; esac # its docker.io has it inside
  apt_of "$1"
  unpack "$1" "$1" containerd docker.io "${more[@]}" aardvark-dns -- runc crun conmon podman netavark
  for p in runc crun conmon podman containerd ctr containerd-shim-runc-v2 dockerd docker docker-proxy; do
    place "$1" usr/sbin/$p usr/bin/$p
  done
  place "$1" usr/lib/podman/netavark
  place "$1" usr/lib/podman/aardvark-dns
  rm -rf "$NRI_ENGINES/apt/$1"
}

# What Podman's infra containers run, as the distribution has it: linked statically, or it would not run in them. It stays in the suite's root.
catatonit() { # SUITE
  apt_of "$1"
  unpack "$1" "$1" catatonit --
  [ -x "$NRI_ENGINES/root/$1/usr/libexec/podman/catatonit" ] || die "$1 has no usr/libexec/podman/catatonit"
  ! patchelf --print-interpreter "$NRI_ENGINES/root/$1/usr/bin/catatonit" 2>/dev/null || die "$1's catatonit is linked dynamically"
  rm -rf "$NRI_ENGINES/apt/$1"
}

# The client of the container runtime interface.
cri() {
  local go
  if ! go=$(PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin command -v go); then
    apt_of trixie
    unpack trixie go golang-1.24-go golang-1.24-src --
    go=$NRI_ENGINES/root/go/usr/lib/go-1.24/bin/go
    export GOROOT=$NRI_ENGINES/root/go/usr/lib/go-1.24
  fi
  cd "$HERE/cri"
  CGO_ENABLED=0 "$go" build -trimpath -buildvcs=false -o "$BIN/cri" .
  rm -rf "$NRI_ENGINES/root/go" "$NRI_ENGINES/apt/trixie"
}

step tools tools
[ -z "$failed" ] || exit 1
step images "$HERE/image.sh" "$IMAGES"
for s in "${wanted[@]}"; do step "$s" engines "$s"; step "$s-catatonit" catatonit "$s"; done
step cri cri
[ -z "$failed" ] || exit 1
echo "engines of ${wanted[*]} are in $NRI_ENGINES"
