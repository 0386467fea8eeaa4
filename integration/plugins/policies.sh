#!/bin/sh
# policies.sh SOURCE [DIR]: builds balloons, topology-aware and memory-qos from SOURCE, a checkout of
# containers/nri-plugins, into DIR (default target/integration/policies), for `make test-policies`.
# Needs the version of Go that SOURCE needs. A first build takes some minutes.
set -eu
[ $# -ge 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd -P)
out=${2:-$here/../../target/integration/policies}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
PATH=${PATH:-}:/usr/local/go/bin:/usr/lib/go/bin
cd "$1"
for name in balloons topology-aware memory-qos; do
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$out/$name" "./cmd/plugins/$name"
  echo "$out/$name"
done
