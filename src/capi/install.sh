#!/bin/sh
# install.sh BUILD PREFIX: installs libnri, nri.h and nri.pc below PREFIX, an absolute path, from
# BUILD, the directory of a build with `cargo build -p nri-capi` (target/debug, target/release).
# DESTDIR is prepended to the paths of the files, as packages need it.
set -eu
[ $# -eq 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd -P)
build=$1 prefix=$2 to=${DESTDIR:-}$2
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
install -d "$to/include" "$to/lib/pkgconfig"
install -m 644 "$here/include/nri.h" "$to/include/nri.h"
install -m 644 "$build/libnri.a" "$to/lib/libnri.a"
install -m 755 "$build/libnri.so" "$to/lib/libnri.so.$version"
ln -sf "libnri.so.$version" "$to/lib/libnri.so.0"
ln -sf libnri.so.0 "$to/lib/libnri.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/nri.pc.in" \
  >"$to/lib/pkgconfig/nri.pc"
