#!/bin/bash
# reproducible.sh
#   Builds the packages of the last commit twice: in clones in different directories, with different
#   homes of cargo, locales, time zones, umasks and numbers of jobs. Fails if any byte differs, and
#   tests the packages otherwise. Takes as long as two release builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
target=${CARGO_TARGET_DIR:-$root/target}
unset CARGO_TARGET_DIR SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -z "$(git -C "$root" status --porcelain)" ] ||
  echo 'reproducible.sh: the last commit is built, without the changes of the working tree' >&2
export NRI_PACKAGE_TOOLS=$target/package-tools
"$here/tools.sh" "$NRI_PACKAGE_TOOLS"

first=$work/first second=$work/a-longer/path/second
git clone -q "$root" "$first"
git clone -q "$root" "$second"
"$first/packaging/packages/build.sh"
home=${CARGO_HOME:-$HOME/.cargo}
mkdir "$work/home"
# The downloaded sources, under another path.
mkdir -p "$home/registry"
for file in "$home"/*; do ln -s "$file" "$work/home"; done
(
  umask 077
  export CARGO_HOME=$work/home LC_ALL=C.UTF-8 LANG=C.UTF-8 TZ=Asia/Tokyo CARGO_BUILD_JOBS=1
  "$second/packaging/packages/build.sh"
)
if ! diff {"$first","$second"}/target/packages/SHA256SUMS; then
  echo 'reproducible.sh: these files differ; of the packages:' >&2
  diff -rq {"$first","$second"}/target/package-build/release/package >&2 || true
  exit 1
fi
echo 'both builds have the same bytes'
"$first/packaging/packages/test.sh" "$first/target/packages"
