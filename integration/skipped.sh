#!/bin/sh
# skipped.sh: prints and counts the tests that were skipped since the last call of this script, with
# the reasons (target/skipped.txt). It always succeeds: a test that must not be skipped fails by
# itself.
set -eu
file=$(cd "$(dirname "$0")/.." && pwd -P)/target/skipped.txt
if [ ! -s "$file" ]; then
  echo 'skipped: nothing'
  exit 0
fi
sort "$file" | uniq
echo "skipped: $(sort "$file" | uniq | wc -l)"
rm -f "$file"
