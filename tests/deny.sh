#!/bin/sh
# Checks dependencies of the workspace and of the fuzz targets against deny.toml: licences, bans,
# sources, advisories. Needs cargo-deny (cargo install cargo-deny). If RustSec's database cannot be
# fetched, all other checks run, and the last line says that advisories were not checked; with
# CI=true the script fails in this case.
set -eu
cd "$(dirname "$0")/.."
# shellcheck disable=SC2086 # a command with arguments
deny() { ${CARGO:-cargo} deny --locked --all-features "$@"; }
deny --version >/dev/null

checks='licenses bans sources' no_advisories=
if deny fetch db; then checks="$checks advisories"; else no_advisories=1; fi
failed=
for manifest in Cargo.toml tests/fuzz/Cargo.toml; do
  echo "$manifest: $checks"
  # shellcheck disable=SC2086 # words
  deny --config deny.toml --manifest-path "$manifest" check --hide-inclusion-graph $checks ||
    failed=1
done
[ -z "$no_advisories" ] || echo 'advisories: NOT CHECKED, cannot fetch their database'
[ -z "$failed" ] || exit 1
[ -z "$no_advisories" ] || [ "${CI:-}" != true ]
