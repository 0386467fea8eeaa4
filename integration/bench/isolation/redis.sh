#!/bin/bash
# redis.sh: unpacks redis of Debian trixie into $NRI_ENGINES, as engines/setup.sh does with engines:
#   bin/redis/redis-server, redis-benchmark, redis-cli    programs with the libraries of their suite
#   root/redis/image.tar                                  the root file system of an image with them
# Programs have the same paths in the image, so that the same files run with and without containers.
# Needs root, and what engines/setup.sh installs on the host. Each step is done once.
set -euo pipefail
. "$(dirname "$0")/../../engines/lib.sh"
. "$(dirname "$0")/../../packages.sh" "$NRI_ENGINES"
[ "$(id -u)" = 0 ] || die "needs root"

# programs: redis-server is a link to a program of redis-tools, and depends on packages for a
# service of systemd, which nothing here is.
programs() {
  local p
  unpack trixie redis redis-server -- redis-tools
  for p in redis-server redis-benchmark redis-cli; do place redis usr/bin/$p; done
}

image() {
  local work root d applet tree=$NRI_ENGINES/root/redis
  work=$(mktemp -d) root=$work/root
  mkdir -p "$root"/{bin,dev,proc,sys,tmp,etc,root} "$root$BIN" "$root$tree/usr"
  cp "$(command -v busybox)" "$root/bin/busybox"
  for applet in sh sleep grep mv; do ln -s busybox "$root/bin/$applet"; done
  cp -a "$BIN/redis" "$root$BIN/"
  for d in lib usr/lib; do
    [ ! -d "$tree/$d" ] || cp -a "$tree/$d" "$root$tree/$d"
  done
  (cd "$root" && tar --owner=0 --group=0 --numeric-owner --sort=name -cf "$tree/image.tar" -- *)
  rm -rf "$work"
}

step redis programs
[ -z "$failed" ] || exit 1
step redis-image image
[ -z "$failed" ] || exit 1
