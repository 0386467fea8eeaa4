#!/bin/bash
# build.sh [PROGRAMS]
#   Builds the .deb and .rpm packages into target/packages, with a software bill of materials
#   (CycloneDX) per program and plugin, and SHA256SUMS. Two builds of a commit should give the same
#   bytes, wherever the checkout is, with the same versions of Rust, the C compiler and the C
#   library.
#   PROGRAMS packages the programs of this directory instead of a release build, compressed less:
#   with target/debug, packages for tests.
# Environment:
#   CARGO, CARGO_TARGET_DIR  as for make
#   NRI_PACKAGE_TOOLS        where the tools are installed (target/package-tools)
#   SOURCE_DATE_EPOCH        time of all files in the packages (time of the last commit)
set -euo pipefail
[ $# -le 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
programs=${1:+$(cd "$1" && pwd -P)}
cd "$(dirname "$0")/../.."
root=$PWD
read -ra cargo <<<"${CARGO:-cargo}"
name=nri-container-runtime
mkdir -p "${CARGO_TARGET_DIR:-target}"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd -P)
tools=${NRI_PACKAGE_TOOLS:-$target/package-tools}
out=$target/packages
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
umask 022
export LC_ALL=C TZ=UTC

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) || {
    echo 'build.sh: not a git checkout: set SOURCE_DATE_EPOCH to the time of the release' >&2
    exit 1
  }
fi
export SOURCE_DATE_EPOCH

packaging/packages/tools.sh "$tools"
tools=$(cd "$tools" && pwd -P)

# Programs contain paths of source files, for panics. Here they do not depend on the machine: the
# last of these that matches counts. Settings of the user's are replaced.
flags=()
remap() { flags+=("--remap-path-prefix=$1=$2"); }
remap "$(cd "${CARGO_HOME:-$HOME/.cargo}" && pwd -P)" /cargo
remap "${CARGO_HOME:-$HOME/.cargo}" /cargo
remap "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/src/rust" /rust
remap "$root" /$name
remap "$target" /$name/target
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
# A directory of its own: the other flags would make every build of the user's start over.
export CARGO_ENCODED_RUSTFLAGS CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$target/package-build
mapfile -t plugins < <(cd src/plugins && printf '%s\n' *)
deb_options=() rpm_options=()
if [ -n "$programs" ]; then
  deb_options=(--fast) rpm_options=(--payload-compress none)
else
  "${cargo[@]}" build --release --locked -p nrid -p nrictl -p nri-wasm-host
  shim/build.sh "$CARGO_TARGET_DIR/release" --locked
  "${cargo[@]}" build --release --locked -p nri-plugin --examples
  "${cargo[@]}" build --release --locked "${plugins[@]/#/-pnri-}"
  programs=$CARGO_TARGET_DIR/release
fi

# All files of the packages, where they are installed.
files=$CARGO_TARGET_DIR/release/package
rm -rf "$files" "$out"
mkdir -p "$files" "$out"
put() { # MODE DIRECTORY FILE...
  local mode=$1 dir=$files/$2
  shift 2
  install -m "$mode" -D -t "$dir" "$@"
}
put 755 usr/bin "$programs/$name" "$programs/nrictl"
put 755 usr/libexec/$name "$programs"/{nrid,nri-oci-hook,nri-wasm-host}
put 755 usr/lib/$name/examples "$programs"/examples/adjust
for plugin in "${plugins[@]}"; do
  # The name of a plugin is that of its program.
  install -m 755 -D "$programs/nri-$plugin" "$files/usr/libexec/$name/plugins/$plugin"
  for file in src/plugins/"$plugin"/{README.md,*.service,sample*}; do
    [ ! -e "$file" ] || put 644 "usr/share/doc/$name/plugins/$plugin" "$file"
  done
  # What `nrictl plugin enable` copies.
  file=src/plugins/$plugin/$plugin.conf
  [ ! -e "$file" ] || put 644 "usr/share/$name/plugins" "$file"
done
# Plugins with commands for administrators, by the names that documents have. No links: one of the
# tools cannot package them.
for plugin in rules topology; do
  printf '#!/bin/sh\nexec /usr/libexec/%s/plugins/%s "$@"\n' $name $plugin |
    install -m 755 /dev/stdin "$files/usr/bin/nri-$plugin"
done
put 644 usr/share/$name src/plugins/rules/rules.schema.json
put 644 usr/share/doc/$name/plugins/rules/cookbook src/plugins/rules/cookbook/*.yaml
put 644 usr/lib/systemd/system packaging/systemd/$name.{service,socket}
put 644 usr/lib/systemd/user packaging/systemd/user/$name.{service,socket}
put 644 usr/lib/tmpfiles.d packaging/systemd/$name.conf
put 644 usr/share/$name packaging/config.toml
put 644 usr/share/doc/$name README.md CHANGELOG.md SECURITY.md LICENSE
packaging/packages/licenses.sh $name nri-oci-hook nrid nrictl nri-wasm-host nri-plugin \
  "${plugins[@]/#/nri-}" | gzip -9n >"$files/usr/share/doc/$name/THIRD-PARTY-LICENSES.gz"
put 644 usr/share/doc/$name/docs docs/*.md
put 644 usr/share/doc/$name/docs/reference docs/reference/*.md
put 644 usr/share/doc/$name/docs/pictures docs/pictures/*.svg
put 644 usr/share/doc/$name/examples/adjust src/plugin/examples/adjust/*.rs
completions() { # SHELL FILE...
  local shell=$1 file
  shift
  for file in "$@"; do
    mkdir -p "$(dirname "$files/$file")"
    "$programs/nrictl" completions "$shell" >"$files/$file"
  done
}
completions bash usr/share/bash-completion/completions/nrictl
completions fish usr/share/fish/vendor_completions.d/nrictl.fish
# The directories of Debian and of Fedora.
completions zsh usr/share/zsh/vendor-completions/_nrictl usr/share/zsh/site-functions/_nrictl
mkdir -p "$files/usr/share/man/man8"
"$programs/nrictl" man-pages "$files/usr/share/man/man8"
gzip -9n "$files"/usr/share/man/man8/*

"$tools/bin/cargo-deb" deb --quiet --no-build --no-strip --locked -p $name -o "$out" \
  "${deb_options[@]}"
# Without the scripts of an installed rpm: they find other requirements than the tool itself.
"$tools/bin/cargo-generate-rpm" generate-rpm -p shim --auto-req builtin -o "$out" \
  "${rpm_options[@]}"

# The tool writes beside each manifest, so it gets a copy of the sources.
copy=$target/package-build/source
rm -rf "$copy"
mkdir -p "$copy"
tar -c --exclude=./target --exclude=./.git --exclude=./tests/fuzz . | tar -x -C "$copy"
"$tools/bin/cargo-cyclonedx" cyclonedx --quiet --manifest-path "$copy/Cargo.toml" --format json \
  --spec-version 1.5 --describe binaries --no-build-deps
for bom in "$copy"/{"shim/$name",hooks/nri-oci-hook,src/{service/nrid,ctl/nrictl}}_bin.cdx.json \
  "$copy"/src/{wasm,plugins/*}/nri-*_bin.cdx.json; do
  sed "s,file://$copy,file:///$name,g" "$bom" \
    >"$out/$(basename "$bom" _bin.cdx.json)-$version.cdx.json"
done
rm -rf "$copy"
(cd "$out" && sha256sum -- * >"$target/SHA256SUMS.new")
mv "$target/SHA256SUMS.new" "$out/SHA256SUMS"
cat "$out/SHA256SUMS"
