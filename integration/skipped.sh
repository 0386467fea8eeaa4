#!/bin/sh
# skipped.sh: prints and counts what the tests skipped, and why, since it was called last (target/skipped.txt). Fails where CI=true.
set -eu
file=$(cd "$(dirname "$0")/.." && pwd -P)/target/skipped.txt
if [ ! -s "$file" ]; then
  echo 'skipped: nothing'
  exit 0
fi
sort "$file" | uniq
echo "skipped: $(sort "$file" | uniq | wc -l)"
rm -f "$file"
[ "${CI:-}" != true ]
