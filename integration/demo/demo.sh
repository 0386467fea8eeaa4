#!/bin/sh
# demo.sh: runs real containers that real plugins adjust, on runc and on crun. Exits with
# 1 if a value in a container is not the one that the engine and the plugins set. Installs missing
# programs (see setup.sh), builds the programs of the workspace, and cleans up. NO_COLOR disables
# colors.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$here/.."
cargo=${CARGO:-cargo}
if [ "$(id -u)" != 0 ]; then
  echo 'demo.sh: not root, which the runtimes need; run as root: make demo' >&2
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
