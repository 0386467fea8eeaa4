#!/bin/sh
# build.sh [DIR [NAME...]]: builds the Go test plugins into DIR (default target/integration), or only those that are named: gostub
# (folder go), and gostub-VERSION for each folder of versions/. Without Go it prints `skipped: no go toolchain` and how many, and succeeds,
# but fails where CI=true: there they must be tested.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
out=${1:-$here/../../target/integration}
[ $# -eq 0 ] || shift
if [ $# -eq 0 ]; then
  set -- gostub
  for dir in "$here"/versions/v*; do set -- "$@" "gostub-${dir##*/}"; done
fi
PATH=${PATH:-}:/usr/local/go/bin:/usr/lib/go/bin
if ! command -v go >/dev/null; then
  echo "skipped: no go toolchain ($# plugins)"
  [ "${CI:-}" != true ] || exit 1
  exit 0
fi
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
for name in "$@"; do
  case $name in
    gostub) cd "$here/go" ;;
    *) cd "$here/versions/${name#gostub-}" ;;
  esac
  # CGO off: a plain static program, which needs no C compiler.
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$out/$name" .
  echo "$out/$name"
done
