#!/bin/sh
# setup.sh [--check]
#   Installs the missing programs that the build, the demo and the tests need: a C linker, runc,
#   crun and a static busybox, on Debian 12 or newer or a derivative with apt. With rustup, also
#   Rust's target for musl. It can be repeated.
#   --check only lists the missing programs, and exits with 1 if there are any.
#   Rust must be installed in the version of Cargo.toml or newer. The script does not install Go: if
#   Go is missing, tests with Go plugins are skipped. It does not install container engines either.
set -eu
PATH=${PATH:-}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
check=
case ${1:-} in
  '') ;;
  --check) check=1 ;;
  *) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
fail() { echo "setup.sh: $*" >&2; exit 1; }

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
cargo=${CARGO:-cargo}
# shellcheck disable=SC2086 # a command with arguments
if ! command -v ${cargo%% *} >/dev/null; then
  [ -z "${SUDO_USER:-}" ] || echo "setup.sh: Rust of $SUDO_USER is not in root's PATH" >&2
  fail "no $cargo: please install Rust $wanted or newer for $(id -un), see https://rustup.rs"
elif ! have=$($cargo --version); then
  fail "$cargo fails: please install Rust $wanted or newer for $(id -un), see https://rustup.rs"
fi
have=$(echo "$have" | cut -d' ' -f2)
[ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -1)" = "$wanted" ] ||
  fail "Rust is $have, $wanted or newer is needed: see https://rustup.rs"

# Whether the linker works: gcc may be installed without the files of the C library.
linker_works() { echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - >/dev/null 2>&1; }

# A dynamically linked busybox cannot run in the empty root of a container; ldd fails on a static
# one.
static_busybox() { b=$(command -v busybox) && ! ldd "$b" >/dev/null 2>&1; }

missing() {
  linker_works || printf 'gcc libc6-dev '
  command -v pkg-config >/dev/null || printf 'pkgconf '
  for p in runc crun; do command -v "$p" >/dev/null || printf '%s ' "$p"; done
  static_busybox || printf 'busybox-static '
}

# The wrapper and the hook start faster with musl, see shim/build.sh. Rust without rustup may have
# the target from elsewhere.
musl=$(uname -m)-unknown-linux-musl
if [ -z "$check" ] && command -v rustup >/dev/null &&
  ! rustup target list --installed | grep -qx "$musl"; then
  rustup target add "$musl" || echo "setup.sh: without $musl, the wrapper starts slower" >&2
fi

need=$(missing)
need=${need% }
if [ -z "$need" ]; then
  [ -z "$check" ] || echo 'nothing is missing'
  exit 0
fi
if [ -n "$check" ]; then
  echo "missing: $need"
  exit 1
fi
command -v apt-get >/dev/null || fail "missing: $need; no apt-get, install them by other means"
[ "$(id -u)" = 0 ] ||
  fail "missing, needs root to install: sudo apt-get install --no-install-recommends $need"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Unattended upgrades of a new machine may hold the lock of dpkg for minutes.
install() {
  # shellcheck disable=SC2086 # a list of words
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 $need >>"$log" 2>&1
}
echo "installing: $need"
# Package lists are updated only if the installation fails with the present lists: an update takes
# long, and fails if one source of the host cannot be reached.
if ! install; then
  echo 'reading the package lists'
  : >"$log"
  apt-get update -q >>"$log" 2>&1 || true
  if ! install; then
    cat "$log" >&2
    fail "apt-get could not install $need; see its output above"
  fi
fi
need=$(missing)
if [ -n "$need" ]; then
  cat "$log" >&2
  fail "still missing: ${need% }"
fi
echo "installed: $(runc --version | head -1), $(crun --version | head -1)," \
  "$(busybox | head -1 | cut -d' ' -f1,2)"
