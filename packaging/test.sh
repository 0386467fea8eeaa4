#!/bin/bash
# test.sh [PROGRAMS]
#   Tests what is in this folder: the units with systemd-analyze, the scripts with shellcheck, the manifests as kustomize builds them (Go), and the
#   Kubernetes installer on a node that is made up (root). PROGRAMS is where the programs were built (target/debug). What a machine lacks is
#   skipped, which is a failure where CI=true. systemd/test.sh is apart: it wants a machine with systemd.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
programs=$(cd "${1:-$here/../target/debug}" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin:/usr/lib/go/bin
skip() { echo "SKIPPED $1: $2"; [ "${CI:-}" != true ]; }
have() { command -v "$1" >/dev/null; }
sed_units() { sed -n "s/^$1=-\{0,1\}\([^ ]*\).*/\1/p" "$here"/systemd/*.service "$here"/systemd/*.socket; }

units() {
  mkdir -p "$work/root/etc/systemd/system" "$work/root/usr/lib"
  # Other units are found where they are on this machine.
  cp -r /usr/lib/systemd "$work/root/usr/lib"
  cp "$here"/systemd/*.service "$here"/systemd/*.socket "$work/root/etc/systemd/system"
  for program in $(sed_units 'Exec[A-Za-z]*'); do
    case $program in /*) ;; *) program=/usr/bin/$program ;; esac
    install -D "$programs/${program##*/}" "$work/root$program"
  done
  # It says what it ignores, and succeeds; other units are not ours to judge.
  systemd-analyze verify --root="$work/root" "$work"/root/etc/systemd/system/nri-container-runtime.{service,socket} >"$work/said" 2>&1 || cat "$work/said"
  if grep nri-container-runtime "$work/said"; then return 1; fi
  # A mount namespace of its own would hide the host's mounts from plugins and runtimes.
  if sed -n '/^\[Service\]/,$p' "$here"/systemd/*.service | grep -v '^ProtectHostname=' | grep -E '^(Private|Protect|Read|Inaccessible|Bind|Temporary|Mount|Root|Dynamic)'; then
    echo 'these give nrid a mount namespace of its own' >&2
    return 1
  fi
  # 7.1 of 10 with systemd 252; 8.1 was before. What is left is what plugins and runtimes need.
  if systemd-analyze security --help | grep -q -- --threshold; then
    systemd-analyze security --offline=true --threshold=75 --no-pager "$here"/systemd/nri-container-runtime.service >"$work/said" || { tail -1 "$work/said"; return 1; }
  fi
  # Where nrid and wrappers look for them.
  [ "$(sed_units ListenStream | sort | tr '\n' ' ')" = '/run/nri-container-runtime/control.sock /run/nri-container-runtime/nri.sock ' ]
}

step() { echo "-- $1"; shift; "$@"; }
if have shellcheck; then
  step 'scripts' find "$here" -name '*.sh' -exec shellcheck {} +
else
  skip 'scripts' 'no shellcheck'
fi
if have systemd-analyze; then step 'units' units; else skip 'units' 'no systemd-analyze'; fi
if have go; then
  # Not from its cache: Go does not see that the manifests have changed.
  step 'manifests' go -C "$here/kubernetes/test" test -count=1 ./...
else
  skip 'manifests' 'no go toolchain'
fi
if [ "$(id -u)" = 0 ]; then step 'installer' "$here/kubernetes/installer/test.sh" "$programs"; else skip 'installer' 'not root'; fi
