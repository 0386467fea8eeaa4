#!/usr/bin/env bash
# Rebuilds the committed corpora: selects, from the seeds and all inputs that runs have found so
# far, the few inputs that together reach the most code.
#   corpus.sh [TARGET…]
set -euo pipefail
cd "$(dirname "$0")"
./run.sh build
work=$(cd ../.. && pwd)/target/fuzz
bin=$work/$(rustc -vV | sed -n 's/^host: //p')/release
export CARGO_TARGET_DIR=$work
rm -rf "$work/seeds" "$work/merged"
cargo run --quiet --example seeds -- "$work/seeds"
# shellcheck disable=SC2046 # names of targets
[ $# -gt 0 ] || set -- $(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' Cargo.toml)
for target; do
  mkdir -p "$work/merged/$target" "$work/corpus/$target" "$work/seeds/$target" "corpus/$target"
  control=$work/merged/$target.control
  rm -f "$control"
  "$bin/$target" -merge=1 -merge_control_file="$control" -max_len=8192 "$work/merged/$target" \
    "corpus/$target" "$work/seeds/$target" "$work/corpus/$target" 2>"$work/merged/$target.log"
  rm -rf "$work/chosen"
  cargo run --quiet --release --example select -- "$control" 40 "$work/chosen"
  rm -rf "corpus/$target"
  mv "$work/chosen" "corpus/$target"
done
