#!/bin/sh
# wasm-rust-setup.sh: installs what wasm-rust.sh needs without rustup's target, from Debian 12: a
# Rust compiler (rustc-web), the sources of its standard library, and the linker of LLVM. Does
# nothing where the target is installed, or where there is no apt.
set -eu
target=wasm32-unknown-unknown
if [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then exit 0; fi
command -v apt-get >/dev/null || exit 0
need=
for package in rustc-web cargo-web rust-web-src lld-19; do
  dpkg -s $package >/dev/null 2>&1 || need="$need $package"
done
[ -n "$need" ] || exit 0
# shellcheck disable=SC2086 # a list of words
install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 $need >/dev/null
}
echo "installing:$need"
install || { apt-get update -q >/dev/null && install; }
