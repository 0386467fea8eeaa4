#!/bin/bash
# setup.sh [--suites "bookworm trixie sid"] [--check]
#   Installs container engines of Debian suites into $NRI_ENGINES (default /var/tmp/nri-engines,
#   about 0.6 GB a suite) for the tests of engines: containerd 1.6, 1.7 and 2.x, Docker 20, 26 and
#   28, Podman 4.3 and 5.x, with their runc, crun, conmon and catatonit, and rootlesskit for
#   Docker without root. It also makes images, and builds a client of the container runtime
#   interface with Go (with Go of trixie if the host has none). Needs root and Debian 12 or newer.
#   It starts nothing and does not change engines of the host: packages are downloaded with a
#   separate apt configuration and unpacked, and dynamically linked programs use the C library of
#   their suite. On the host it installs only the tools for these steps. Each step is done once;
#   call the script again after a failure. Logs are in $NRI_ENGINES/log.
#   --check only lists the missing suites, and exits with 1 if there are any.
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
  for s in "${wanted[@]}"; do
    [ -e "$NRI_ENGINES/done/$s" ] && [ -e "$NRI_ENGINES/done/$s-catatonit" ] &&
      [ -e "$NRI_ENGINES/done/$s-rootlesskit" ] || missing+=("$s")
  done
  [ ${#missing[@]} = 0 ] || { echo "missing: ${missing[*]}"; exit 1; }
  exit 0
fi
[ "$(id -u)" = 0 ] || die "needs root"
mkdir -p "$NRI_ENGINES"/{log,done,bin,root,img}

# step NAME FUNCTION ARGS...: runs a step that was not done yet, with its output in a log. A failure
# sets `failed` and does not end the script.
failed=
step() {
  local name=$1 t=$SECONDS log=$NRI_ENGINES/log/$1
  shift
  [ ! -e "$NRI_ENGINES/done/$name" ] || return 0
  # The function runs in the background, because the shell ignores set -e in a condition.
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

# tools: installs the tools for unpacking, the programs that engines call (ip, iptables,
# newuidmap), and Podman's configuration of registries and policies
# (golang-github-containers-common).
tools() {
  local p
  for p in busybox-static patchelf xz-utils iproute2 iptables uidmap \
    golang-github-containers-common; do
    dpkg-query -W -f '${db:Status-Status}\n' $p 2>/dev/null | grep -qx installed || set -- "$@" $p
  done
  [ $# = 0 ] || install_on_host "$@"
}

install_on_host() {
  local apt=(apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300)
  export DEBIAN_FRONTEND=noninteractive
  "${apt[@]}" install "$@" || { apt-get -q update && "${apt[@]}" install "$@"; }
}

# apt_of SUITE: makes an apt configuration with separate lists and no installed packages, so that
# apt resolves all dependencies
apt_of() {
  local d=$NRI_ENGINES/apt/$1 source key=/usr/share/keyrings/debian-archive-keyring.gpg
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

# unpack SUITE ROOT [PACKAGE...] -- [PACKAGE...]: unpacks the packages before `--` alone, those
# after it with their dependencies
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
    dpkg-deb --fsys-tarfile "$f" |
      tar -x -C "$root" --exclude='./usr/share/doc' --exclude='./usr/share/man' \
        --exclude='./usr/share/locale' --exclude='./usr/share/perl*' \
        --exclude='./usr/lib/*-linux-gnu/perl*' --exclude='*/gconv'
  done
  rm -rf "$d"
}

# place SUITE FILE...: links the first FILE that exists into the bin directory of the suite. A
# dynamically linked program is copied and set to use the libraries of the suite: by DT_RPATH, since
# DT_RUNPATH does not apply to dependencies of libraries.
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
    patchelf --set-interpreter "$loader" --force-rpath \
      --set-rpath "$libraries:$root/lib/$(basename "$libraries")" "$BIN/$suite/$(basename "$f")"
  else
    ln -sfn "$root/$f" "$BIN/$suite/"
  fi
}

# engines SUITE: unpacks the engines of a suite and links their programs
engines() {
  local more=(docker-cli) p
  case $1 in bookworm) more=() ;; esac # docker.io of bookworm contains the client
  apt_of "$1"
  unpack "$1" "$1" containerd docker.io "${more[@]}" aardvark-dns -- \
    runc crun conmon podman netavark
  for p in runc crun conmon podman containerd ctr containerd-shim-runc-v2 dockerd docker \
    docker-proxy; do
    place "$1" usr/sbin/$p usr/bin/$p
  done
  place "$1" usr/lib/podman/netavark
  place "$1" usr/lib/podman/aardvark-dns
  rm -rf "$NRI_ENGINES/apt/$1"
}

# catatonit SUITE: unpacks the program of Podman's infra containers into the root of the suite. It
# must be linked statically to run in them.
catatonit() {
  apt_of "$1"
  unpack "$1" "$1" catatonit --
  [ -x "$NRI_ENGINES/root/$1/usr/libexec/podman/catatonit" ] ||
    die "$1 has no usr/libexec/podman/catatonit"
  ! patchelf --print-interpreter "$NRI_ENGINES/root/$1/usr/bin/catatonit" 2>/dev/null ||
    die "catatonit of $1 is linked dynamically"
  rm -rf "$NRI_ENGINES/apt/$1"
}

# rootlesskit SUITE: unpacks and links the programs that rootless Docker needs besides Docker's own
rootlesskit() {
  local p
  apt_of "$1"
  unpack "$1" "$1" rootlesskit --
  for p in rootlesskit rootlesskit-docker-proxy; do place "$1" usr/bin/$p; done
  rm -rf "$NRI_ENGINES/apt/$1"
}

# criu: unpacks criu of sid, which crun loads as a library and runc calls as a program. Those of
# older suites do not know newer kernels.
criu() {
  apt_of sid
  unpack sid sid -- criu libcriu2
  place sid usr/sbin/criu usr/bin/criu
  rm -rf "$NRI_ENGINES/apt/sid"
}

# cri: builds the client of the container runtime interface
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

step host-tools tools
[ -z "$failed" ] || exit 1
step images "$HERE/image.sh" "$IMAGES"
for s in "${wanted[@]}"; do
  step "$s" engines "$s"
  step "$s-catatonit" catatonit "$s"
  step "$s-rootlesskit" rootlesskit "$s"
  [ "$s" != sid ] || step sid-criu criu
done
step cri cri
[ -z "$failed" ] || exit 1
echo "engines of ${wanted[*]} are in $NRI_ENGINES"
