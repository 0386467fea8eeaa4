#!/bin/bash
# enforcement.sh PROGRAM [GUEST...]
#   Runs the enforcement tests, PROGRAM as built by cargo, in guests with cgroup v2: uml, systemd
#   (User Mode Linux with systemd as the cgroup driver), qemu (for the controllers that the others
#   lack: cpuset, hugetlb). Default: all. Skipped tests are counted with the name of the guest.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
case ${1:-} in '' | -*) usage ;; esac
program=$(readlink -f "$1") || die "no $1"
shift
[ $# -gt 0 ] || set -- uml systemd qemu
target=$(cd "$HERE/../../target" && pwd -P)
cd "$HERE/.." || exit

# Copies of the programs in cargo's layout: a build on the host must not replace files under a
# guest.
stage=$(mktemp -d "$NRI_GUESTS/programs.XXXXXX")
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage"/debug/{deps,examples}
cp "$program" "$stage/debug/deps/enforcement"
for name in nrid nrictl nri-container-runtime nri-oci-hook examples/adjust; do
  cp "$target/debug/$name" "$stage/debug/$name" || exit
done
# The plugin is built on the host: in a guest that would take long.
cp "$target/integration/gostub" "$stage/" || exit

failed=
for guest in "$@"; do
  out=$(mktemp -d)
  case $guest in
    uml) run=("$HERE/uml.sh") set=(NRI_TEST_OTHERS=4) only=() ;;
    systemd)
      run=("$HERE/uml.sh" --systemd) only=()
      set=(NRI_TEST_SYSTEMD=1 NRI_TEST_OTHERS=2 NRI_UPDATES=200)
      ;;
    qemu)
      run=("$HERE/qemu.sh")
      set=(NRI_TEST_SLOW=1 NRI_TEST_OTHERS=1 "NRI_TEST_FIELDS=cpu.cpus,cpu.mems,hugepageLimits")
      only=(life_cycle oom::an_oom_kill_is_notified_to_plugins)
      ;;
    *) die "no such guest: $guest" ;;
  esac
  t=$SECONDS
  echo "== $guest"
  # shellcheck disable=SC2016 # the guest's shell expands
  OUT=$out "${run[@]}" sh -c '"$@"; rc=$?; cp "$0" /out/ 2>/dev/null; exit $rc' \
    "$stage/skipped.txt" env "NRI_TEST_GOSTUB=$stage/gostub" "${set[@]}" \
    "$stage/debug/deps/enforcement" --test-threads=2 --color never "${only[@]}" ||
    failed="$failed $guest"
  echo "== $guest: $((SECONDS - t)) s"
  [ ! -e "$out/skipped.txt" ] ||
    sed "s/^SKIPPED /SKIPPED in $guest: /" "$out/skipped.txt" >>"$target/skipped.txt"
  rm -rf "$out"
done
[ -z "$failed" ] || die "failed in:$failed"
