#!/usr/bin/env bash
# takeover.sh [COMMIT [TEST-ARGUMENT...]]: builds the programs of an earlier commit from git, and
# tests that the current programs take over its containers, records and installations, and that the
# earlier programs take over those of the current ones. The build is kept below
# target/takeover/COMMIT, so only the first run is slow. By default COMMIT is that of the tag v0.1.0,
# which a clone without tags has, too.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
commit=$(git rev-parse --verify "${1:-f5c24e05}^{commit}")
[ $# -eq 0 ] || shift
dir=$PWD/target/takeover/$commit
if [ ! -d "$dir/source" ]; then
  mkdir -p "$dir"
  rm -rf "$dir/source.new"
  mkdir "$dir/source.new"
  git archive "$commit" | tar -x -C "$dir/source.new"
  mv "$dir/source.new" "$dir/source"
fi
programs=(-p nri-container-runtime -p nri-oci-hook -p nrid -p nrictl)
"$cargo" build --manifest-path "$dir/source/Cargo.toml" --target-dir "$dir/target" --locked \
  "${programs[@]}"
"$cargo" build --workspace --bins --examples
NRI_TAKEOVER_BASE=$dir "$cargo" test -p nri-integration --test takeover "$@"
