#!/bin/bash
# setup.sh [DIR]
#   Builds what the test runs, of Go modules, into DIR (default target/integration/kubernetes):
#   etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl in the
#   versions of programs/go.mod, and helm in that of helm/go.mod. With two cores the first build
#   takes 20 minutes, 2 GB of Go's module cache, and 3 GB of a build cache in DIR/cache. A program
#   that is there already in this version is not built again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
out=${1:-${CARGO_TARGET_DIR:-$here/../../target}/integration/kubernetes}
PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
command -v go >/dev/null || { echo 'setup.sh: no go toolchain' >&2; exit 1; }
mkdir -p "$out/bin"
out=$(cd "$out" && pwd -P)
export GOCACHE=$out/cache CGO_ENABLED=0

# build MODULE-DIR PACKAGE NAME [LINKER-FLAGS]
build() {
  local sum start=$SECONDS
  sum=$(sha256sum "$here/$1/go.mod" | cut -d' ' -f1)
  [ "$(cat "$out/bin/.$3" 2>/dev/null)" != "$sum" ] || return 0
  # The build has a low priority: it is long, and the machine may be in use.
  nice go -C "$here/$1" build -trimpath -buildvcs=false -ldflags "-s -w ${4:-}" \
    -o "$out/bin/$3" "$2"
  echo "$sum" >"$out/bin/.$3"
  echo "$3: $((SECONDS - start)) s"
}

# The API server refuses to run without a version, which is set when a release is linked.
version=$(go -C "$here/programs" list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v*.}
p=k8s.io/component-base/version
flags="-X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=${minor%.*}"
build programs go.etcd.io/etcd/server/v3 etcd
for name in kube-apiserver kubelet kube-controller-manager kube-scheduler kubectl; do
  build programs k8s.io/kubernetes/cmd/$name $name "$flags"
done
build helm helm.sh/helm/v3/cmd/helm helm
