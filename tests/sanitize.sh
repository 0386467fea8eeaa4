#!/usr/bin/env bash
# Builds our programs with address sanitizer, which includes leak detection, and runs the tests of
# the programs with unsafe code.
#   sanitize.sh [short]      short: without real containers
# The sanitizer is linked into every program, including the fake runtime and the tests. It writes a
# file to target/sanitize/reports for each error; any report fails the run, even if all tests pass.
# Needs a C compiler and Rust from rustup (stable), which includes the library of the sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/target/sanitize
reports=$work/reports
host=$(rustc -vV | sed -n 's/^host: //p')
compgen -G "$(rustc --print sysroot)/lib/rustlib/$host/lib/librustc-*_rt.asan.a" >/dev/null || {
  echo "sanitize.sh: this Rust has no address sanitizer for $host" >&2
  exit 1
}
rm -rf "$reports"
mkdir -p "$reports"
chmod 1777 "$reports" # plugins also run as other users

# Options are linked in, because many programs are started with another environment, and with a
# stderr that is not read. The leak detection at exit waits for a child process. The wait fails in a
# program that ignores SIGCHLD, as the wrapper does if its caller does, so the detection is turned
# off in such a program.
# The object's name contains a checksum, because cargo does not detect that its content changed.
options=$(
  cat <<EOF
#include <signal.h>
const char *__asan_default_options(void) {
  return "detect_leaks=1:exitcode=99:log_path=$reports/report";
}
int __lsan_is_turned_off(void) {
  struct sigaction action;
  return sigaction(SIGCHLD, 0, &action) == 0 && action.sa_handler == SIG_IGN;
}
EOF
)
object=$work/options-$(cksum <<<"$options" | cut -d' ' -f1).o
cc -c -x c -o "$object" - <<<"$options"

# RUSTC_BOOTSTRAP makes stable accept the unstable option. With a target, cargo does not apply
# RUSTFLAGS to build scripts and macros.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Clink-arg=$object"
export CARGO_TARGET_DIR=$work CARGO_BUILD_TARGET=$host
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only

# check_finds PATTERN PROGRAM: checks that the sanitizer reports the known error of a Rust program,
# which is started without environment
check_finds() {
  printf '%s\n' "$2" >"$work/probe.rs"
  # shellcheck disable=SC2086 # options
  rustc --edition 2024 $RUSTFLAGS -o "$work/probe" "$work/probe.rs"
  env -i "$work/probe" && status=0 || status=$?
  if [ "$status" != 99 ] || ! grep -qs "$1" "$reports"/report.*; then
    echo "sanitize.sh: the sanitizer does not find a $1 (exit code $status)" >&2
    exit 1
  fi
  rm -f "$reports"/report.*
}
check_finds heap-use-after-free \
  'fn main() {
     let p = { let b = std::hint::black_box(Box::new(1)); &raw const *b };
     std::process::exit(unsafe { p.read_volatile() })
   }'
check_finds 'detected memory leaks' \
  'fn main() { std::hint::black_box(Box::leak(Box::new([1; 100]))); }'

packages=(-p nrid -p nri-container-runtime -p nri-oci-hook -p nrictl -p nri-plugin -p nri-tests
  -p nri-integration)
tests=(--lib --bins --test activation --test wrapper)
[ "${1:-}" = short ] || tests+=(--test real)
cargo=${CARGO:-cargo}
# The tests with real containers run the shipped plugins and the host of modules, too.
$cargo build --workspace --bins --examples
# Without optimization, the digest of a program of this size takes longer than its time limit.
$cargo test "${packages[@]}" "${tests[@]}" --no-fail-fast \
  -- --skip a_pinned_program_runs_from_its_copy && passed=0 || passed=$?

found=$(find "$reports" -type f | wc -l)
for report in "$reports"/report.*; do
  [ ! -f "$report" ] || grep -m 1 -H -E 'ERROR|WARNING|runtime error' "$report" || echo "$report"
done
echo "sanitizer: $found reports"
[ "$found" = 0 ] && exit "$passed"
exit 1
