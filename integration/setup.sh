#!/bin/sh
# setup.sh [--check]
#   Installs what building, the demo and the tests need and is not there yet: a C linker, runc, crun and a static busybox (Debian 12
#   or newer, or a relative with apt). With --check it only tells what is missing, exit 1 when something is. Safe to repeat.
#   Rust must be there, new enough. Deliberately not here: Go (only the tests with a Go plugin want it, and they say so), any engine.
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
  fail "$cargo does not work: please install Rust $wanted or newer for $(id -un), see https://rustup.rs"
fi
have=$(echo "$have" | cut -d' ' -f2)
[ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -1)" = "$wanted" ] ||
  fail "Rust here is $have: please install $wanted or newer, see https://rustup.rs (that of the distribution may be too old)"

# Tried and not looked for: gcc comes without what it links against.
links() { echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - >/dev/null 2>&1; }

# A busybox that is linked dynamically cannot run in a container's bare root; ldd fails on a static program.
static_busybox() { b=$(command -v busybox) && ! ldd "$b" >/dev/null 2>&1; }

missing() {
  links || printf 'gcc libc6-dev '
  for p in runc crun; do command -v "$p" >/dev/null || printf '%s ' "$p"; done
  static_busybox || printf 'busybox-static '
}

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
command -v apt-get >/dev/null || fail "missing: $need; there is no apt-get here, please install them by other means"
[ "$(id -u)" = 0 ] || fail "missing, and only root can install it: sudo apt-get install --no-install-recommends $need"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Waits for the upgrades that a new machine begins with.
# shellcheck disable=SC2086 # a list of words
install() { DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 $need >>"$log" 2>&1; }
echo "installing: $need"
# The package lists of a machine are often there and good enough; a fresh one has none, and a source of others may fail to give its own.
if ! install; then
  echo 'reading the package lists'
  : >"$log"
  apt-get update -q >>"$log" 2>&1 || true
  if ! install; then
    cat "$log" >&2
    fail "apt-get could not install $need; what it said is above"
  fi
fi
need=$(missing)
if [ -n "$need" ]; then
  cat "$log" >&2
  fail "still missing: ${need% }"
fi
echo "installed: $(runc --version | head -1), $(crun --version | head -1), $(busybox | head -1 | cut -d' ' -f1,2)"
