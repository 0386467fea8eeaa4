#!/bin/sh
# build.sh [DIR [NAME...]]: builds the Go test plugins into DIR (default target/integration): gostub
# (directory go), clearquota (directory v010, a plugin of NRI v0.1), gostub-VERSION for each
# directory of versions/, and gowasm.wasm (directory wasm), which is a WebAssembly module, or only
# the named ones. If Go
# is missing, the script prints `skipped: no go toolchain` with the number of plugins and succeeds;
# with CI=true it fails.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
out=${1:-$here/../../target/integration}
[ $# -eq 0 ] || shift
if [ $# -eq 0 ]; then
  set -- gostub gowasm clearquota
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
    gowasm)
      cd "$here/wasm"
      GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -buildmode=c-shared \
        -o "$out/$name.wasm" .
      echo "$out/$name.wasm"
      continue
      ;;
    gostub) cd "$here/go" ;;
    clearquota) cd "$here/v010" ;;
    *) cd "$here/versions/${name#gostub-}" ;;
  esac
  # Without cgo the program is static, and the build needs no C compiler.
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$out/$name" .
  echo "$out/$name"
done
