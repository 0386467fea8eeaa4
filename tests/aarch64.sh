#!/usr/bin/env bash
# Builds the programs that an engine starts for each container, the wrapper and the hook, for
# aarch64, and runs their unit tests and one call of the wrapper there, in qemu-user.
# Needs Rust from rustup; installs the target and qemu-user if they are missing (apt).
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-musl # as shim/build.sh builds them
if ! command -v qemu-aarch64 >/dev/null; then
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends qemu-user
fi
rustup target list --installed | grep -qx $target || rustup target add $target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64
programs=(-p nri-container-runtime -p nri-oci-hook)
crates=(nri-args nri-locate nri-trust nri-files nri-control)
${CARGO:-cargo} test --target $target "${programs[@]}" "${crates[@]/#/-p=}"
${CARGO:-cargo} build --target $target "${programs[@]}"

# A call that becomes the runtime, which is a program of this machine.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#!/bin/sh\necho "runtime: $*"\n' >"$work/runtime"
chmod +x "$work/runtime"
wrapper=${CARGO_TARGET_DIR:-target}/$target/debug/nri-container-runtime
found=$(qemu-aarch64 "$wrapper" --nri-runtime "$work/runtime" --root "$work" state c)
[ "$found" = "runtime: --root $work state c" ] || {
  echo "aarch64.sh: the wrapper did not become the runtime: $found" >&2
  exit 1
}
echo 'the wrapper became the runtime on aarch64'
