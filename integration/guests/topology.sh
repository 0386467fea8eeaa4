#!/bin/bash
# topology.sh [CONTAINERS [TEST]]
#   Runs the tests of the plugin topology in a guest with 16 CPUs on 2 memory nodes and with cgroup
#   v2 (qemu.sh). CONTAINERS is the number of containers of each runtime, default 20: each takes
#   half a minute there, or two on a busy host. Then those of cgroups at the root, with systemd as
#   the cgroup driver. TEST limits the tests to those with this name, without systemd. Needs the
#   programs and tests of `cargo build` and `cargo test --no-run` in target/debug. Skipped tests
#   are counted with the name of the guest.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
case ${1:-} in -*) usage ;; esac
stage topology nrid nrictl nri-container-runtime nri-oci-hook nri-topology
rc=0
OUT=$STAGE NODES=2 TIMEOUT=${TIMEOUT:-5400} "$HERE/qemu.sh" \
  env NRI_TEST_SLOW=1 NRI_TOPOLOGY_CONTAINERS="${1:-20}" \
  /out/debug/deps/topology --test-threads=1 --nocapture --color never ${2:+"$2"} || rc=$?
[ -n "${2:-}" ] || OUT=$STAGE "$HERE/qemu.sh" --systemd \
  env NRI_TEST_SLOW=1 NRI_TEST_SYSTEMD=1 \
  /out/debug/deps/topology --test-threads=1 --nocapture --color never root:: || rc=$?
(exit $rc)
unstage topology
