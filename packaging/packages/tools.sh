#!/bin/bash
# tools.sh DIR
#   Installs the programs that build packages into DIR/bin, in these versions, unless they are there
#   already. Nothing else is changed: neither the user's ~/.cargo/bin nor the system. CARGO is the
#   command of cargo.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)

read -ra cargo <<<"${CARGO:-cargo}"
# install NAME VERSION OPTIONS...
install() {
  local name=$1 version=$2
  shift 2
  [ ! -e "$dir/$name-$version" ] || return 0
  echo "installing $name $version (the first time takes a minute)"
  # Without optimization: the programs run for a second, and their build would take minutes. The
  # settings of the packages' build must not reach theirs.
  env -u CARGO_ENCODED_RUSTFLAGS -u RUSTFLAGS -u SOURCE_DATE_EPOCH CARGO_PROFILE_DEV_DEBUG=0 \
    CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$dir/build" \
    "${cargo[@]}" install --quiet --locked --debug --force --root "$dir" \
    --version "=$version" "$@" "$name"
  : >"$dir/$name-$version"
}

# Its own liblzma: that of the system could compress in another way.
install cargo-deb 3.8.0 --features static-lzma
install cargo-generate-rpm 0.21.1
install cargo-cyclonedx 0.5.9
rm -rf "$dir/build"
