#!/bin/bash
# topology.sh [CONTAINERS [TEST]]
#   Runs the tests of the plugin topology in a guest with 16 CPUs on 2 memory nodes and with cgroup
#   v2 (qemu.sh). CONTAINERS is the number of containers of each runtime, default 5: each takes a
#   minute or two there. TEST limits the tests to those with this name. Needs the programs and tests
#   of `cargo build` and `cargo test --no-run` in target/debug. Skipped tests are counted with the
#   name of the guest.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
case ${1:-} in -*) usage ;; esac
target=$(cd "$HERE/../../target" && pwd -P)
cd "$HERE/.." || exit
# The newest one, if there are several.
test=
for file in "$target"/debug/deps/topology-*; do
  [ ! -x "$file" ] || { [ -n "$test" ] && [ "$test" -nt "$file" ]; } || test=$file
done
[ -n "$test" ] || die "no test: cargo test -p nri-integration --test topology --no-run"

# Copies, because a build on the host may replace the programs during a run.
stage=$(mktemp -d "$NRI_GUESTS/programs.XXXXXX")
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/debug/deps"
cp "$test" "$stage/debug/deps/topology"
for name in nrid nrictl nri-container-runtime nri-oci-hook nri-topology; do
  cp "$target/debug/$name" "$stage/debug/$name" || exit
done
OUT=$stage NODES=2 TIMEOUT=5400 "$HERE/qemu.sh" \
  env NRI_TEST_SLOW=1 NRI_TOPOLOGY_CONTAINERS="${1:-5}" \
  /out/debug/deps/topology --test-threads=1 --nocapture --color never ${2:+"$2"}
status=$?
[ ! -e "$stage/skipped.txt" ] ||
  sed 's/^SKIPPED /SKIPPED in topology: /' "$stage/skipped.txt" >>"$target/skipped.txt"
exit $status
