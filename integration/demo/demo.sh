#!/bin/sh
# demo.sh: runs real containers that real plugins adjust, on runc and on crun. Exits 1 if a
# container sees another value than the engine and the plugins set. Installs missing programs (see
# setup.sh), builds the workspace's programs, and cleans up. NO_COLOR is honoured.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$here/.."
cargo=${CARGO:-cargo}
if [ "$(id -u)" != 0 ]; then
  echo 'demo.sh: the runtimes need root here, please run as root: make demo' >&2
  exit 1
fi
"$here/setup.sh"
echo 'building (the first time takes some minutes)'
# A debug build: a release build takes many times as long, and the tests use the same programs.
$cargo build -q -p nri-container-runtime -p nri-oci-hook -p nrid -p nrictl -p nri-plugin \
  --bins --examples
$cargo build -q -p nri-integration --example demo
target=${CARGO_TARGET_DIR:-target}
exec "$here/cgroups.sh" "$target/debug/examples/demo"
