#!/bin/sh
# wasm-rust.sh [DIR]: builds the plugin of src/wasm/guest, a WebAssembly module in Rust, into DIR
# (default target/integration). With rustup, `rustup target add wasm32-unknown-unknown` is all it
# takes; without that target, the script uses the compiler of Debian's package rustc-web and builds
# the standard library from rust-web-src, which wasm-rust-setup.sh installs. If neither is there, it
# prints `skipped: ` with the reason and succeeds; with CI=true it fails.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
out=${1:-$root/target/integration}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR="$out/wasm-rust"
cd "$root/src/wasm/guest"
has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; }
linker=
for file in /usr/bin/wasm-ld-*; do
  [ ! -x "$file" ] || linker=$file
done
if command -v rustc >/dev/null && has_target; then
  cargo build -q --release --target $target
elif [ -d /usr/lib/rustlib/src/rust/library ] && [ -x /usr/bin/cargo ] && [ -n "$linker" ]; then
  # -Zbuild-std takes a nightly compiler, or this variable.
  PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker \
    /usr/bin/cargo build -q --release --target $target -Zbuild-std=std,panic_abort
else
  echo "skipped: no compiler for $target, see integration/plugins/wasm-rust-setup.sh"
  [ "${CI:-}" != true ] || exit 1
  exit 0
fi
cp "$CARGO_TARGET_DIR/$target/release/nri_wasm_guest.wasm" "$out"
echo "$out/nri_wasm_guest.wasm"
