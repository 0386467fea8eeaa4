#!/bin/bash
# licenses.sh CRATE...
#   Prints the licences of all crates of a registry that these crates of the workspace are linked
#   with, and their texts and notices, which most licences require beside a program. A text that
#   several crates have in common is printed once. CARGO is the command of cargo.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
export LC_ALL=C
read -ra cargo <<<"${CARGO:-cargo}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The directories of all crates, also of those of tests.
host=$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')
"${cargo[@]}" metadata --locked --format-version 1 --filter-platform "$host" |
  grep -o '"manifest_path":"[^"]*/Cargo.toml"' | sed 's,^[^:]*:"\(.*\)/Cargo.toml"$,\1,' \
  >"$work/dirs"
# A crate of the workspace has its path after the version, and is omitted.
"${cargo[@]}" tree --locked --edges normal,no-proc-macro --prefix none \
  --format '{p}|{l}' "${@/#/-p}" | sed 's/ (\*)$//' |
  sed -n 's/^\([^ ]*\) v\([^ |]*\)|/\1-\2 /p' | sort -u >"$work/crates"
cat <<END
The programs contain these crates, under these licences. Texts and notices that the crates have
follow. Rust's standard library has the licences MIT OR Apache-2.0. nri-container-runtime and
nri-oci-hook are linked statically with a C library, too: musl has the licence MIT.

END
while read -r crate license; do
  echo "$crate: $license"
  find "$(grep "/$crate\$" "$work/dirs")" -maxdepth 1 -type f ! -name '.*' \
    \( -iname '*licen[cs]e*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' \) |
    sort >"$work/files"
  while read -r file; do
    text=$work/$(sha256sum <"$file" | cut -c 1-64)
    cp "$file" "$text.text"
    echo "$crate" >>"$text.crates"
  done <"$work/files"
done <"$work/crates"
for text in "$work"/*.text; do
  printf '\n%s\n' "$(printf '%.0s-' {1..72})"
  uniq "${text%.text}.crates" | tr '\n' ' ' | fold -s -w 72
  printf '\n\n'
  cat "$text"
done
