#!/bin/bash
# enforcement.sh ENFORCEMENT REAL [GUEST...]
#   Runs the enforcement tests, a program as built by cargo, in guests with cgroup v2: uml (and
#   those of REAL about unified, which only cgroup v2 has), uml510 (with Linux 5.10, where tests of life
#   cycles and restarts from the program REAL run, too), swapless (Linux 5.10 that does not limit
#   swap, only the tests of that), systemd (User Mode Linux with systemd as the cgroup driver, and
#   REAL's tests of units), qemu (with the controllers cpuset and hugetlb, which User Mode Linux
#   lacks). Default: all. Skipped tests are counted with the name of the guest.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
case ${1:-} in '' | -*) usage ;; esac
[ $# -ge 2 ] || usage
enforcement=$(readlink -f "$1") || die "no $1"
real=$(readlink -f "$2") || die "no $2"
shift 2
[ $# -gt 0 ] || set -- uml uml510 swapless systemd qemu
target=$(cd "$HERE/../../target" && pwd -P)
cd "$HERE/.." || exit

# The guests use copies of the programs, in cargo's layout, because a build on the host may replace
# the programs during a run. The directory is /out in the guests, where they can write.
stage=$(mktemp -d "$NRI_GUESTS/programs.XXXXXX")
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage"/debug/{deps,examples}
cp "$enforcement" "$stage/debug/deps/enforcement"
cp "$real" "$stage/debug/deps/real"
for name in nrid nrictl nri-container-runtime nri-oci-hook nri-rules fake_runtime \
  examples/adjust; do
  cp "$target/debug/$name" "$stage/debug/$name" || exit
done
# The plugin is built on the host, because a build in a guest takes long.
cp "$target/integration/gostub" "$stage/" || exit

failed=
for guest in "$@"; do
  tests=(/out/debug/deps/enforcement)
  case $guest in
    uml)
      run=(env TIMEOUT=1800 "$HERE/uml.sh") only=() tests+=(/out/debug/deps/real)
      set=(NRI_TEST_SLOW=1 NRI_TEST_OTHERS=4)
      ;;
    uml510)
      run=(env TIMEOUT=1800 "$HERE/uml.sh" --kernel uml510)
      set=(NRI_TEST_SLOW=1 NRI_TEST_OTHERS=1) tests+=(/out/debug/deps/real)
      only=(
        bare:: failed:: forms:: oom:: create:: exits:: notifications:: nrid::next_nrid::
        nrid_does_not_depend_on_the_process_that_started_it restrictions_of_the_caller
      )
      ;;
    swapless)
      run=(env TIMEOUT=600 "$HERE/uml.sh" --kernel uml510 --parameter swapaccount=0)
      set=(NRI_TEST_SLOW=1) only=(swapless::)
      ;;
    systemd)
      run=(env TIMEOUT=1800 "$HERE/uml.sh" --systemd) only=() tests+=(/out/debug/deps/real)
      set=(NRI_TEST_SLOW=1 NRI_TEST_SYSTEMD=1 NRI_TEST_OTHERS=2 NRI_UPDATES=200)
      ;;
    qemu)
      run=("$HERE/qemu.sh")
      set=(NRI_TEST_SLOW=1 NRI_TEST_OTHERS=1 "NRI_TEST_FIELDS=cpu.cpus,cpu.mems,hugepageLimits")
      only=(life_cycle oom::plugins_are_notified_of_an_oom_kill)
      ;;
    *) die "no such guest: $guest" ;;
  esac
  t=$SECONDS
  echo "== $guest"
  for test in "${tests[@]}"; do
    case $guest$test in
      systemd*/real) only=(units::) ;;
      uml/*/real) only=(a_limit_holds_for_unified) ;;
    esac
    OUT=$stage "${run[@]}" env NRI_TEST_GOSTUB=/out/gostub "${set[@]}" \
      "$test" --test-threads=2 --color never "${only[@]}" || failed="$failed $guest"
  done
  echo "== $guest: $((SECONDS - t)) s"
  [ ! -e "$stage/skipped.txt" ] ||
    sed "s/^SKIPPED /SKIPPED in $guest: /" "$stage/skipped.txt" >>"$target/skipped.txt"
  rm -f "$stage/skipped.txt"
done
[ -z "$failed" ] || die "failed in:$failed"
