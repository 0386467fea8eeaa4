#!/bin/sh
# skipped.sh: prints and counts the skipped tests, with the reasons, since its last call
# (target/skipped.txt). It always succeeds: a skip that is not allowed fails in the test itself.
set -eu
file=$(cd "$(dirname "$0")/.." && pwd -P)/target/skipped.txt
if [ ! -s "$file" ]; then
  echo 'skipped: nothing'
  exit 0
fi
sort "$file" | uniq
echo "skipped: $(sort "$file" | uniq | wc -l)"
rm -f "$file"
