#!/bin/sh
# example-driver.sh: a driver for `nri-conformance --driver script`, which runs containers with the
# program RUNTIME that has runc's command line; ROOT is its root directory, BUNDLES a directory for
# bundles. The README describes the verbs.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
verb=${1:?} id=${2:-}
input=$(cat)

# items KEY: prints the texts of a list of the input, one a line
items() {
  printf '%s' "$input" | sed -n 's/.*"'"$1"'":\[\([^]]*\)\].*/\1/p' |
    sed 's/","/"\n"/g' | tr -d '"'
}
# number KEY: prints a number of the input
number() { printf '%s' "$input" | sed -n 's/.*"'"$1"'":\([0-9]*\).*/\1/p'; }
runtime() { "$RUNTIME" --root "$ROOT" "$@"; }

case $verb in
  version) "$RUNTIME" --version | head -1 ;;
  create)
    memory=$(number memory)
    set -- --root "$BUNDLES/rootfs" --cgroup "/nri-conformance/$id"
    [ -z "$memory" ] || set -- "$@" --resources "{\"memory\": {\"limit\": $memory}}"
    while read -r variable; do set -- "$@" --env "$variable"; done <<V
$(items env)
V
    # The arguments of the tests have no spaces.
    # shellcheck disable=SC2046
    "$here/../bundle.sh" "$BUNDLES/$id" "$@" -- $(items args)
    runtime create --bundle "$BUNDLES/$id" "$id" </dev/null >/dev/null
    echo "$id"
    ;;
  start) runtime start "$id" ;;
  pid) runtime state "$id" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' ;;
  update)
    memory=$(number memory)
    runtime update --memory "$memory" --memory-swap "$memory" "$id"
    ;;
  stop) runtime kill "$id" KILL ;;
  remove) runtime delete --force "$id" ;;
  config) cat "$BUNDLES/$id/config.json" ;;
  *) exit 64 ;;
esac
