#!/bin/sh
# skipped.sh: prints and counts what the tests skipped, and why, since it was called last (target/skipped.txt). It does not judge: a
# skip that must not be is a failed test.
set -eu
file=$(cd "$(dirname "$0")/.." && pwd -P)/target/skipped.txt
if [ ! -s "$file" ]; then
  echo 'skipped: nothing'
  exit 0
fi
sort "$file" | uniq
echo "skipped: $(sort "$file" | uniq | wc -l)"
rm -f "$file"
