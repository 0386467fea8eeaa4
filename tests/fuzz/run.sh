#!/usr/bin/env bash
# Builds the fuzz targets and runs each for SECONDS, starting from its committed corpus.
#   run.sh SECONDS [TARGET…]
#   run.sh build                  only builds
# New inputs are written to target/fuzz/corpus, findings to target/fuzz/artifacts.
# SEED=N: tries the same inputs in the same order each time. CI sets a seed, so that a failure is
# caused by the change and not by random inputs.
# Needs stable Rust and a C++ compiler (for libFuzzer).
# Reproduce a finding: target/fuzz/HOST/release/TARGET FILE
set -euo pipefail
cd "$(dirname "$0")"
work=$(cd ../.. && pwd)/target/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
bin=$work/$host/release

# Coverage for libFuzzer, also of dependencies. These options are stable. Sanitizers are unstable,
# and not needed, because the targets run no unsafe code of this repository.
export CARGO_TARGET_DIR=$work RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
"${CARGO:-cargo}" build --quiet --release --target "$host"
[ "${1:?seconds}" = build ] && exit

seconds=$1
shift
# shellcheck disable=SC2046 # names of targets
[ $# -gt 0 ] || set -- $(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' Cargo.toml)

# Runs a target and prints a summary line.
run() {
  local target=$1 dictionary
  case $target in
    spec | creation | cdi) dictionary=oci ;;
    update | classes) dictionary=resources ;;
    frames) dictionary=session ;;
    protocol | names) dictionary=merge ;;
    *) dictionary=$target ;;
  esac
  mkdir -p "$work/corpus/$target" "$work/artifacts/$target" "$work/logs"
  local log=$work/logs/$target.log status=0
  "$bin/$target" "$work/corpus/$target" "corpus/$target" \
    -dict="dictionaries/$dictionary.dict" -artifact_prefix="$work/artifacts/$target/" \
    ${SEED:+-seed="$SEED"} -max_total_time="$seconds" -max_len=8192 -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -verbosity=1 >"$log" 2>&1 || status=$?
  local runs first last
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  first=$(sed -n 's/.*INITED cov: \([0-9]*\).*/\1/p' "$log")
  last=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  echo "$target: ${runs:-?} runs, coverage ${first:-?} -> ${last:-?}"
  [ $status = 0 ] && return
  echo "FINDING in $target:" \
    "$(sed -n "s/^thread .* panicked at /panicked at /p; s/^SUMMARY: //p" "$log" | head -n 1)"
  sed -n 's/.*Test unit written to /  /p' "$log"
  echo "  log: $log"
  return 1
}
export -f run
export work bin seconds

# Runs as many targets at once as there are processors. xargs fails if a target fails.
printf '%s\n' "$@" | xargs -P "$(nproc)" -I {} bash -euo pipefail -c 'run {}'
