#!/bin/sh
# samples.sh SOURCE [DIR]: builds upstream's sample plugins from SOURCE, a checkout of containerd/nri,
# into DIR (default target/integration/samples), for the tests of what they need:
#   NRI_TEST_SAMPLES=DIR cargo test -p nri-integration --test real samples
set -eu
[ $# -ge 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd -P)
out=${2:-$here/../../target/integration/samples}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
PATH=${PATH:-}:/usr/local/go/bin:/usr/lib/go/bin
for module in "$1"/plugins/*/go.mod; do
  dir=${module%/*}
  name=${dir##*/}
  if [ "$name" = wasm ]; then
    (cd "$dir" && GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false \
      -buildmode=c-shared -o "$out/$name" .)
  else
    (cd "$dir" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$out/$name" .)
  fi
  echo "$out/$name"
done
