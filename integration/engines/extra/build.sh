#!/bin/sh
# build.sh [DIR [NAME...]]: builds engines that Debian does not package into DIR (default
# target/engines-extra): buildkit, nerdctl, crio, cri-dockerd, docker29 (its dockerd), or only
# the named ones. The go.mod files in the directories of the engines set the versions. Needs Go, and
# a C compiler for crio. The first build takes some minutes and 2 GB of Go's caches.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
out=${1:-${CARGO_TARGET_DIR:-$here/../../../target}/engines-extra}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- buildkit nerdctl crio cri-dockerd docker29
PATH=${PATH:-}:/usr/local/go/bin:/usr/lib/go/bin
if ! command -v go >/dev/null; then
  echo 'skipped: no go toolchain'
  exit 0
fi
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
# Builds static programs that do not depend on the state of the checkout.
build() { CGO_ENABLED=0 go build -trimpath -buildvcs=false "$@"; }
version() { go list -m -f '{{.Version}}' "$1"; }

for name in "$@"; do
  cd "$here/$name"
  case $name in
    buildkit)
      m=github.com/moby/buildkit
      build -ldflags "-s -w -X $m/version.Version=$(version $m)" -o "$out/" \
        $m/cmd/buildkitd $m/cmd/buildctl ./enter
      ;;
    nerdctl)
      m=github.com/containerd/nerdctl
      build -ldflags "-s -w -X $m/pkg/version.Version=$(version $m)" -o "$out/" $m/cmd/nerdctl
      ;;
    crio)
      tags=containers_image_openpgp,containers_image_ostree_stub,exclude_graphdriver_btrfs
      build -ldflags '-s -w' -o "$out/" -tags $tags \
        github.com/cri-o/cri-o/cmd/crio github.com/cri-o/cri-o/test/copyimg ./cri
      # pinns, which pins the namespaces of pods, is a C program of CRI-O.
      source=$(go list -m -f '{{.Dir}}' github.com/cri-o/cri-o)/pinns/src
      ${CC:-cc} -std=c99 -O2 -w -o "$out/pinns" "$source"/*.c
      ;;
    cri-dockerd)
      m=github.com/Mirantis/cri-dockerd
      build -ldflags "-s -w -X $m/cmd/version.Version=$(version $m)" -o "$out/" $m
      ;;
    docker29)
      m=github.com/moby/moby/v2
      version=$(version $m)
      # A directory of its own, since other engines here use another dockerd.
      mkdir -p "$out/docker29"
      build -ldflags "-s -w -X $m/dockerversion.Version=${version#v}" -o "$out/docker29/" \
        $m/cmd/dockerd
      ;;
    *) echo "build.sh: no engine $name" >&2; exit 2 ;;
  esac
  echo "$out: $name"
done
