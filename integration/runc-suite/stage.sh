# shellcheck shell=bash disable=SC2154
# stage.sh: sourced by runc-suite.sh. Prepares the directory $stage: src has the tests of runc and
# their helpers, built from runc's source; bin has copies of our programs, because a build may
# replace the programs during a run. Images are made once, in $cache.

make_stage() {
  local p missing=()
  for p in bats jq gawk gcc go xz script; do command -v $p >/dev/null || missing+=("$p"); done
  if ! command -v busybox >/dev/null || ldd "$(command -v busybox)" >/dev/null 2>&1; then
    missing+=('a static busybox')
  fi
  [ ${#missing[@]} = 0 ] || { echo "runc-suite.sh: missing: ${missing[*]}" >&2; return 1; }

  mkdir -p "$stage/src" "$stage/bin" "$cache" || return
  chmod a+x "$stage"
  for p in nri-container-runtime nri-oci-hook nrid nrictl examples/adjust; do
    cp "${BIN:-$target/debug}/$p" "$stage/bin/" || return
  done
  # The tests call the runtime by this name.
  mv "$stage/bin/nri-container-runtime" "$stage/bin/runc"

  for p in tests contrib man script VERSION go.mod; do
    [ ! -e "$source/$p" ] || cp -r "$source/$p" "$stage/src/" || return
  done
  make_helpers && make_images || return
}

# Builds the helpers of the tests: Go programs, below tests/cmd since runc 1.2, below contrib/cmd
# before.
make_helpers() {
  local dir name to tags=
  if command -v pkg-config >/dev/null && pkg-config --exists libseccomp; then
    tags=seccomp
  else
    echo 'no libseccomp-dev: tests with a seccomp agent fail in all modes' >&2
  fi
  for dir in "$source"/tests/cmd/* "$source"/contrib/cmd/*; do
    compgen -G "$dir/*.go" >/dev/null || continue
    name=${dir##*/}
    case $dir in
      */tests/*) to=$stage/src/tests/cmd/_bin/$name ;;
      *) to=$stage/src/contrib/cmd/$name/$name ;;
    esac
    rm -f "$to"
    (cd "$source" && nice go build -mod=vendor -tags "$tags" -trimpath -buildvcs=false \
      -o "$to" "./${dir#"$source"/}") || return
  done
}

make_images() {
  local arch data=$stage/src/tests/integration/testdata
  arch=$(go env GOARCH)
  [ -e "$cache/busybox.tar.xz" ] || busybox_image "$stage/image" || return
  cp "$cache/busybox.tar.xz" "$data/busybox-$arch.tar.xz"
  if [ -e "$cache/debian.tar.xz" ] ||
    { command -v debootstrap >/dev/null && debian_image "$stage/image"; }; then
    cp "$cache/debian.tar.xz" "$data/debian-$arch.tar.xz"
  else
    echo 'no debootstrap, or it failed: tests with a Debian image fail in all modes' >&2
    : >"$data/debian-$arch.tar.xz" # without the file the tests would download an image
  fi
  rm -rf "$stage/image"
}

busybox_image() {
  local root=$1 a
  mkdir -p "$root"/{bin,dev,etc,home,lib,root,tmp,usr/bin,usr/sbin,var/spool,var/tmp} || return
  chmod 1777 "$root/tmp" "$root/var/tmp"
  cp "$(command -v busybox)" "$root/bin/busybox" || return
  for a in $("$root/bin/busybox" --list); do
    [ "$a" = busybox ] || ln -sf busybox "$root/bin/$a"
  done
  ln -s bin "$root/sbin"
  printf '%s\n' root:x:0:0:root:/root:/bin/sh daemon:x:1:1:daemon:/usr/sbin:/bin/false \
    nobody:x:65534:65534:nobody:/home:/bin/false >"$root/etc/passwd"
  printf '%s\n' root:x:0: daemon:x:1: tty:x:5: nogroup:x:65534: >"$root/etc/group"
  pack "$root" busybox
}

debian_image() {
  local root=$1 mirror release
  # The mirror is that of the host's apt sources, if the host is a Debian.
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CREATED_BY)|$(REPO_URI)' |
    sed -n 's/^Debian|main|Packages|//p' | grep -v security | head -1)
  echo 'making an image of Debian'
  release=$(. /etc/os-release; [ "$ID" != debian ] || echo "${VERSION_CODENAME:-}")
  nice debootstrap --variant=minbase "${release:-stable}" "$root" ${mirror:+"$mirror"} \
    >"$cache/debootstrap.log" 2>&1 || {
    tail -3 "$cache/debootstrap.log" >&2
    rm -rf "$root"
    return 1
  }
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,locale,man}
  pack "$root" debian
}

# pack ROOT NAME: makes an archive of the image in $cache, and removes ROOT
pack() {
  tar -C "$1" -cf - . | xz -0 >"$cache/$2.new" && mv "$cache/$2.new" "$cache/$2.tar.xz" || return
  rm -rf "$1"
}
