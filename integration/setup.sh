#!/bin/sh
# setup.sh [--check]
#   Installs what the demo and the tests need and is not there yet: runc, crun and a static busybox (Debian 12 or newer, or a
#   relative with apt). With --check it only tells what is missing, exit 1 when something is. Safe to repeat.
#   Deliberately not here: Go (only the tests with a Go plugin want it, and they say so), Rust, any engine.
set -eu
PATH=${PATH:-}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
check=
case ${1:-} in
  '') ;;
  --check) check=1 ;;
  *) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac

# A busybox that is linked dynamically cannot run in a container's bare root; ldd fails on a static program.
static_busybox() { b=$(command -v busybox) && ! ldd "$b" >/dev/null 2>&1; }

missing() {
  for p in runc crun; do command -v "$p" >/dev/null || printf '%s ' "$p"; done
  static_busybox || printf 'busybox-static '
}

need=$(missing)
if [ -z "$need" ]; then
  [ -z "$check" ] || echo 'nothing is missing'
  exit 0
fi
if [ -n "$check" ]; then
  echo "missing: $need"
  exit 1
fi
if ! command -v apt-get >/dev/null; then
  echo "setup.sh: missing: ${need% }; there is no apt-get here, please install them by other means" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "setup.sh: not root, please run: sudo apt-get install ${need% }" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of words
install() { DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $need >"$log" 2>&1; }
echo "installing: $need"
# The package lists of a machine are often there and good enough; a fresh one has none.
if ! install; then
  echo 'reading the package lists'
  apt-get update -q >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  install || { cat "$log" >&2; exit 1; }
fi
need=$(missing)
if [ -n "$need" ]; then
  cat "$log" >&2
  echo "setup.sh: still missing: $need" >&2
  exit 1
fi
echo "installed: $(runc --version | head -1), $(crun --version | head -1), $(busybox | head -1 | cut -d' ' -f1,2)"
