#!/bin/bash
# setup.sh [--suites "bookworm trixie sid"] [--check]
#   Installs container engines of Debian suites into $NRI_ENGINES (default /var/tmp/nri-engines,
#   about 0.6 GB a suite) for the tests of engines: containerd 1.6, 1.7 and 2.x, Docker 20, 26 and
#   28, Podman 4.3 and 5.x, with their runc, crun, conmon and catatonit, rootlesskit for Docker
#   without root, and Compose (not of bookworm, where it is a program in Python). It also makes
#   images, and builds a client of the container runtime interface with Go (with Go of trixie if the
#   host has none). Needs root and Debian 12 or newer. It starts nothing and does not change engines
#   of the host: packages are unpacked, and dynamically linked programs use the C library of their
#   suite. On the host it installs only the tools for these steps. Each step is done once; call the
#   script again after a failure. Logs are in $NRI_ENGINES/log.
#   --check only lists the missing suites, and exits with 1 if there are any.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../packages.sh" "$NRI_ENGINES"
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
      [ -e "$NRI_ENGINES/done/$s-rootlesskit" ] &&
      { [ "$s" = bookworm ] || [ -e "$NRI_ENGINES/done/$s-compose" ]; } || missing+=("$s")
  done
  [ ${#missing[@]} = 0 ] || { echo "missing: ${missing[*]}"; exit 1; }
  exit 0
fi
[ "$(id -u)" = 0 ] || die "needs root"
mkdir -p "$IMAGES"

# engines SUITE: unpacks the engines of a suite and links their programs
engines() {
  local more=(docker-cli) p
  case $1 in bookworm) more=() ;; esac # docker.io of bookworm contains the client
  unpack "$1" "$1" containerd docker.io "${more[@]}" aardvark-dns -- \
    runc crun conmon podman netavark
  for p in runc crun conmon podman containerd ctr containerd-shim-runc-v2 dockerd docker \
    docker-proxy; do
    place "$1" usr/sbin/$p usr/bin/$p
  done
  place "$1" usr/lib/podman/netavark
  place "$1" usr/lib/podman/aardvark-dns
}

# catatonit SUITE: unpacks the program of Podman's infra containers into the root of the suite. It
# must be linked statically to run in them.
catatonit() {
  unpack "$1" "$1" catatonit --
  [ -x "$NRI_ENGINES/root/$1/usr/libexec/podman/catatonit" ] ||
    die "$1 has no usr/libexec/podman/catatonit"
  ! patchelf --print-interpreter "$NRI_ENGINES/root/$1/usr/bin/catatonit" 2>/dev/null ||
    die "catatonit of $1 is linked dynamically"
}

# rootlesskit SUITE: unpacks and links the programs that rootless Docker needs besides Docker's own
rootlesskit() {
  local p
  unpack "$1" "$1" rootlesskit --
  for p in rootlesskit rootlesskit-docker-proxy; do place "$1" usr/bin/$p; done
}

# compose SUITE: unpacks and links Compose, which is a plugin of the client and a program of its own
compose() {
  unpack "$1" "$1" docker-compose --
  place "$1" usr/libexec/docker/cli-plugins/docker-compose
}

# criu: unpacks criu of sid, which crun loads as a library and runc calls as a program. Those of
# older suites do not know newer kernels.
criu() {
  unpack sid sid -- criu libcriu2
  place sid usr/sbin/criu usr/bin/criu
}

# cri: builds the client of the container runtime interface
cri() {
  local go
  if ! go=$(PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin command -v go); then
    unpack trixie go golang-1.24-go golang-1.24-src --
    go=$NRI_ENGINES/root/go/usr/lib/go-1.24/bin/go
    export GOROOT=$NRI_ENGINES/root/go/usr/lib/go-1.24
  fi
  cd "$HERE/cri"
  CGO_ENABLED=0 "$go" build -trimpath -buildvcs=false -o "$BIN/cri" .
  rm -rf "$NRI_ENGINES/root/go"
}

# The tools for unpacking, the programs that engines call (ip, iptables, newuidmap), and Podman's
# configuration of registries and policies (golang-github-containers-common).
step host-tools install_on_host busybox-static patchelf xz-utils iproute2 iptables uidmap \
  golang-github-containers-common
[ -z "$failed" ] || exit 1
step images "$HERE/image.sh" "$IMAGES"
for s in "${wanted[@]}"; do
  step "$s" engines "$s"
  step "$s-catatonit" catatonit "$s"
  step "$s-rootlesskit" rootlesskit "$s"
  [ "$s" = bookworm ] || step "$s-compose" compose "$s"
  [ "$s" != sid ] || step sid-criu criu
done
step cri cri
[ -z "$failed" ] || exit 1
echo "engines of ${wanted[*]} are in $NRI_ENGINES"
