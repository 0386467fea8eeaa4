#!/bin/bash
# run-tests.sh COMMAND...: runs a command that runs tests, and returns its exit status. Afterwards
# prints and counts the skipped tests with the reasons (target/skipped.txt), and last the failed
# ones: with --no-fail-fast, their output is thousands of lines earlier. A test that must not be
# skipped fails by itself.
set -uo pipefail
target=$(cd "$(dirname "$0")/.." && pwd -P)/target
skipped=$target/skipped.txt
log=$target/tests.log
mkdir -p "$target"
rm -f "$skipped"

"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

if [ -s "$skipped" ]; then
  sort -u "$skipped"
  echo "skipped: $(sort -u "$skipped" | wc -l)"
else
  echo 'skipped: nothing'
fi
if [ "$status" -ne 0 ]; then
  # The first lines of each failed test's output, and the targets that cargo names.
  grep -A 4 -E '^---- .* ----$' "$log"
  grep -E '^(test .* FAILED$|error: |  process didn.t exit)|^ +`-p ' "$log"
  echo "failed with exit status $status; complete output: $log"
fi
exit "$status"
