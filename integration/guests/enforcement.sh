#!/bin/bash
# enforcement.sh PROGRAM [GUEST...]
#   Runs the tests of enforcement, PROGRAM as cargo built it, in guests with cgroup version 2: uml, systemd (User Mode Linux, systemd as the cgroup
#   driver), qemu (what the others do not have: cpuset, hugetlb). Default: all. What is skipped is told with the guest's name, and counted.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
case ${1:-} in '' | -*) usage ;; esac
program=$(readlink -f "$1") || die "no $1"
shift
[ $# -gt 0 ] || set -- uml systemd qemu
target=$(cd "$HERE/../../target" && pwd -P)
cd "$HERE/.." || exit

# The plugin is built: a guest would take long for it. What it skipped is its own.
inside() { # NAME=VALUE... -- ARGS...
  local set=("NRI_TEST_GOSTUB=$target/integration/gostub")
  while [ "$1" != -- ]; do set+=("$1"); shift; done
  shift
  # shellcheck disable=SC2016 # expanded there
  printf '%s\n' sh -c 'rm -f "$0"; "$@"; rc=$?; cp "$0" /out/ 2>/dev/null; exit $rc' "$target/skipped.txt" env "${set[@]}" "$program" --test-threads=2 --color never "$@"
}

failed=
for guest in "$@"; do
  out=$(mktemp -d)
  case $guest in
    uml) run=("$HERE/uml.sh") what=(NRI_TEST_OTHERS=4 --) ;;
    systemd) run=("$HERE/uml.sh" --systemd) what=(NRI_TEST_SYSTEMD=1 NRI_TEST_OTHERS=2 NRI_UPDATES=200 --) ;;
    qemu) run=("$HERE/qemu.sh") what=(NRI_TEST_OTHERS=1 NRI_TEST_FIELDS=cpu.cpus,cpu.mems,hugepageLimits -- life oom::is_told) ;;
    *) die "no such guest: $guest" ;;
  esac
  t=$SECONDS
  echo "== $guest"
  mapfile -t command < <(inside "${what[@]}")
  OUT=$out "${run[@]}" "${command[@]}" || { failed="$failed $guest"; }
  echo "== $guest: $((SECONDS - t)) s"
  [ ! -e "$out/skipped.txt" ] || sed "s/^SKIPPED /SKIPPED in $guest: /" "$out/skipped.txt" >>"$target/skipped.txt"
  rm -rf "$out"
done
[ -z "$failed" ] || die "failed in:$failed"
