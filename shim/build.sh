#!/bin/bash
# build.sh DIRECTORY [OPTION...]
#   Builds the wrapper and the hook, optimized, into DIRECTORY. OPTIONs are those of cargo build.
#
#   Both are linked statically with musl, and at a fixed address: they start at each call of an
#   engine, and most of the time of a short call would be the start of the GNU C library, whose
#   CPUID instructions trap in a virtual machine. Without Rust's target for musl (rustup target
#   add), both are linked as the other programs are, and this script says so.
# Environment: CARGO, CARGO_TARGET_DIR, RUSTFLAGS, CARGO_ENCODED_RUSTFLAGS  as for cargo
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd -P)
shift
cd "$(dirname "$0")/.."
read -ra cargo <<<"${CARGO:-cargo}"
options=(--profile wrapper -p nri-container-runtime -p nri-oci-hook "$@")
built=${CARGO_TARGET_DIR:-target}
musl=$(uname -m)-unknown-linux-musl
if [ -d "$("${RUSTC:-rustc}" --print target-libdir --target "$musl" 2>/dev/null)" ]; then
  words=${RUSTFLAGS:-}
  flags=${CARGO_ENCODED_RUSTFLAGS-${words// /$'\x1f'}}
  # With noseparate-code, code, constants and headers are one segment. The path is relative to the
  # workspace, where cargo runs the linker: symbol names are hashes of flags, too, so that with an
  # absolute path the program would depend on the directory of the build.
  for flag in -Crelocation-model=static -Clink-arg=-Wl,-z,noseparate-code \
    -Clink-arg=-Wl,-T,shim/short-calls.ld; do
    flags+=${flags:+$'\x1f'}$flag
  done
  export CARGO_ENCODED_RUSTFLAGS=$flags
  options+=(--target "$musl")
  built=$built/$musl
else
  echo "build.sh: without musl (rustup target add $musl), each call of the wrapper takes longer" >&2
fi
"${cargo[@]}" build "${options[@]}"
install -t "$out" "$built"/wrapper/{nri-container-runtime,nri-oci-hook}
