#!/bin/sh
# build.sh [DIR [NAME...]]: builds engines that Debian does not have into DIR (default target/engines-extra), from Go modules of the versions
# that the go.mod files beside this say: buildkit, nerdctl, crio, cri-dockerd, or only those that are named. Needs Go, for crio a C compiler too. Takes some
# minutes and 2 GB for Go's caches the first time; GOFLAGS=-p=1 and nice are the caller's choice.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
out=${1:-${CARGO_TARGET_DIR:-$here/../../../target}/engines-extra}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- buildkit nerdctl crio cri-dockerd
PATH=${PATH:-}:/usr/local/go/bin:/usr/lib/go/bin
if ! command -v go >/dev/null; then
  echo 'skipped: no go toolchain'
  exit 0
fi
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
# Plain static programs; nothing of the checkout's state goes into them.
build() { CGO_ENABLED=0 go build -trimpath -buildvcs=false "$@"; }
version() { go list -m -f '{{.Version}}' "$1"; }

for name in "$@"; do
  cd "$here/$name"
  case $name in
    buildkit)
      m=github.com/moby/buildkit
      build -ldflags "-s -w -X $m/version.Version=$(version $m)" -o "$out/" $m/cmd/buildkitd $m/cmd/buildctl ./enter
      ;;
    nerdctl)
      m=github.com/containerd/nerdctl
      build -ldflags "-s -w -X $m/pkg/version.Version=$(version $m)" -o "$out/" $m/cmd/nerdctl
      ;;
    crio)
      build -ldflags '-s -w' -o "$out/" -tags containers_image_openpgp,containers_image_ostree_stub,exclude_graphdriver_btrfs \
        github.com/cri-o/cri-o/cmd/crio github.com/cri-o/cri-o/test/copyimg ./cri
      # It pins the namespaces of pods; CRI-O brings it in C.
      source=$(go list -m -f '{{.Dir}}' github.com/cri-o/cri-o)/pinns/src
      ${CC:-cc} -std=c99 -O2 -w -o "$out/pinns" "$source"/*.c
      ;;
    cri-dockerd)
      m=github.com/Mirantis/cri-dockerd
      build -ldflags "-s -w -X $m/cmd/version.Version=$(version $m)" -o "$out/" $m
      ;;
    *) echo "build.sh: no engine $name" >&2; exit 2 ;;
  esac
  echo "$out: $name"
done
