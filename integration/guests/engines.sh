#!/bin/bash
# engines.sh SUITES [TEST...]
#   Runs the tests of containerd, Docker and Podman (tests/engines) in User Mode Linux, with cgroup
#   v2. SUITES are those of integration/engines/setup.sh, such as 'trixie sid'; the tests of one
#   take 20 minutes. TEST limits the tests to those with this name. GUEST=qemu: in QEMU, which has
#   the controllers cpuset and hugetlb, too, but takes minutes for a test. NRI_TEST_POLICIES=DIR:
#   also those with the plugins in this directory, see integration/plugins/policies.sh. Needs the
#   programs and tests of `cargo build` and `cargo test --no-run` in target/debug, and
#   integration/plugins/build.sh for tests with the Go plugin. Skipped tests are counted with the
#   name of the program.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
case ${1:-} in '' | -*) usage ;; esac
suites=$1
shift
stage engines nrid nrictl nri-container-runtime nri-oci-hook nri-wasm-host nri-rules crash-at \
  examples/adjust
with=() ignored=
if [ -e "$TARGET/integration/gostub" ]; then
  cp "$TARGET/integration/gostub" "$STAGE/" || exit
  with+=(NRI_TEST_GOSTUB=/out/gostub)
fi
if [ -n "${NRI_TEST_POLICIES:-}" ]; then
  cp -r "$NRI_TEST_POLICIES" "$STAGE/policies" || exit
  with+=(NRI_TEST_POLICIES=/out/policies) ignored=--include-ignored
fi
# The storage of engines has to be on a tmpfs: overlays on the overlay of the guest do not work. They
# run in a cgroup below the root, as under systemd: dockerd looks there for what the kernel has.
# shellcheck disable=SC2016 # the shell of the guest expands
OUT=$STAGE TIMEOUT=${TIMEOUT:-5400} "$HERE/${GUEST:-uml}.sh" \
  env NRI_TEST_SLOW=1 TMPDIR=/run NRI_ENGINE_SUITES="$suites" "${with[@]}" \
  bash -c 'cgroup=/sys/fs/cgroup
    sed "s/[^ ]\+/+&/g" $cgroup/cgroup.controllers >$cgroup/cgroup.subtree_control &&
      mkdir $cgroup/engines /run/user && echo $$ >$cgroup/engines/cgroup.procs && exec "$@"' bash \
  /out/debug/deps/engines --test-threads=1 --color never $ignored "$@"
unstage engines
