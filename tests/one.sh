#!/usr/bin/env bash
# one.sh NAME: finds all tests of the workspace with NAME in their names, and runs only these. NAME
# may have a prefix of modules (real::stopped::NAME). `make test-one T=NAME` calls this script.
# Tests in integration/ run real containers: as root, with what `make setup` installs.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?usage: one.sh NAME}
cargo=${CARGO:-cargo}
function=${name##*::}

# target FILE: prints the arguments of cargo for the tests of a file: "PACKAGE --test TARGET", or
# "PACKAGE" for unit tests
target() {
  local folder rest
  folder=$(dirname "$1")
  while [ ! -f "$folder/Cargo.toml" ]; do folder=$(dirname "$folder"); done
  rest=${1#"$folder/"}
  package=$(sed -n '/^name = /{s/name = "\(.*\)"/\1/p;q}' "$folder/Cargo.toml")
  case $rest in
    tests/*/*) rest=${rest#tests/}; echo "$package --test ${rest%%/*}" ;;
    tests/*.rs) rest=${rest#tests/}; echo "$package --test ${rest%.rs}" ;;
    examples/*) echo "$package --examples" ;;
    *) echo "$package" ;;
  esac
}

files=$(git ls-files -co --exclude-standard '*.rs' ':!tests/fuzz' |
  xargs grep -lE "fn [a-z0-9_]*$function" || true)
targets=$(for file in $files; do target "$file"; done | sort -u)
[ -n "$targets" ] || {
  echo "one.sh: no function in the workspace has '$function' in its name" >&2
  exit 1
}

if grep -q '^nri-integration ' <<<"$targets"; then
  [ ! -x integration/plugins/build.sh ] || integration/plugins/build.sh
  $cargo build -q --workspace --bins --examples
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r package only; do
  # shellcheck disable=SC2086 # options of cargo
  $cargo test -p "$package" $only -- "$name" </dev/null 2>&1 | tee -a "$log"
done <<<"$targets"
grep -qE '^test .* \.\.\. ' "$log" || {
  echo "one.sh: no test has '$name' in its name" >&2
  exit 1
}
