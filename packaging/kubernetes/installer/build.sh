#!/bin/sh
# build.sh PROGRAMS [NAME:TAG]
#   Builds the installer's image (nri-container-runtime-installer:VERSION) with docker, podman or
#   buildah, or the program in BUILDER. PROGRAMS is the directory of the five programs, such as
#   target/release. They run on the nodes, not in the image: build them statically, or for the
#   oldest C library of the nodes. BASE is the base image.
set -eu
[ $# -ge 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd -P)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../../Cargo.toml")
name=${2:-nri-container-runtime-installer:$version}
builder=${BUILDER:-}
for candidate in docker podman buildah; do
  [ -n "$builder" ] || ! command -v $candidate >/dev/null || builder=$candidate
done
[ -n "$builder" ] || { echo 'build.sh: neither docker nor podman nor buildah is here' >&2; exit 1; }
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
for program in nri-container-runtime nri-oci-hook nri-wasm-host nrictl nrid; do
  install -m 755 -D -t "$context/programs" "$1/$program"
done
for unit in nri-container-runtime.service nri-container-runtime.socket; do
  install -m 644 -D -t "$context/programs/systemd" "$here/../../systemd/$unit"
done
install -m 755 -t "$context" "$here/installer.sh" "$here/Dockerfile"
# shellcheck disable=SC2086 # it may have options
$builder build --tag "$name" ${BASE:+--build-arg "BASE=$BASE"} --file "$context/Dockerfile" \
  "$context"
