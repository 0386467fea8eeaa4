#!/bin/bash
# test.sh [PROGRAMS]
#   Tests this directory: the units with systemd-analyze, the scripts with shellcheck, the manifests
#   as built by kustomize and Helm (Go), and the Kubernetes installer on a fake node (root).
#   PROGRAMS is the directory of the built programs (target/debug). Tests without their program are
#   skipped, or fail with CI=true. The script does not call systemd/test.sh, which needs a machine
#   with systemd.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
programs=$(cd "${1:-$here/../target/debug}" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin:/usr/lib/go/bin
skip() { echo "SKIPPED $1: $2"; [ "${CI:-}" != true ]; }
have() { command -v "$1" >/dev/null; }
# values KEY: prints the first words of all values of KEY in the units
values() {
  sed -n "s/^$1=-\{0,1\}\([^ ]*\).*/\1/p" "$here"/systemd/*.service "$here"/systemd/*.socket
}

units() {
  mkdir -p "$work/root/etc/systemd/system" "$work/root/usr/lib"
  # Units of the host, to which ours refer.
  cp -r /usr/lib/systemd "$work/root/usr/lib"
  for program in $(values 'Exec[A-Za-z]*'); do
    case $program in /*) ;; *) program=/usr/bin/$program ;; esac
    install -D "$programs/${program##*/}" "$work/root$program"
  done
  # systemd-analyze succeeds with warnings, so any line on our units is an error; lines on other
  # units are ignored. The units of users are checked as if they were units of the system, since
  # systemd-analyze refuses --user with --root.
  for dir in "$here/systemd" "$here/systemd/user"; do
    cp "$dir"/*.service "$dir"/*.socket "$work/root/etc/systemd/system"
    systemd-analyze verify --root="$work/root" \
      "$work"/root/etc/systemd/system/nri-container-runtime.{service,socket} >"$work/output" 2>&1 ||
      cat "$work/output"
    if grep nri-container-runtime "$work/output"; then return 1; fi
  done
  # Units of the shipped plugins, whose programs need not be built.
  local unit name
  for unit in "$here"/../src/plugins/*/*.service; do
    name=$(basename "$unit" .service)
    install -D /bin/true "$work/root/usr/libexec/nri-container-runtime/plugins/$name"
    cp "$unit" "$work/root/etc/systemd/system"
    systemd-analyze verify --root="$work/root" "$work/root/etc/systemd/system/$name.service" \
      >"$work/output" 2>&1 || cat "$work/output"
    if grep "$name" "$work/output"; then return 1; fi
  done
  # A private mount namespace would hide the host's mounts from plugins and runtimes.
  if sed -n '/^\[Service\]/,$p' "$here"/systemd/*.service | grep -v '^ProtectHostname=' |
    grep -E '^(Private|Protect|Read|Inaccessible|Bind|Temporary|Mount|Root|Dynamic)'; then
    echo 'test.sh: these settings give nrid a private mount namespace' >&2
    return 1
  fi
  # The threshold of 75 is 7.5 of 10. The exposure is 7.1 with systemd 252; plugins and runtimes
  # need the remaining privileges.
  if systemd-analyze security --help | grep -q -- --threshold; then
    systemd-analyze security --offline=true --threshold=75 --no-pager \
      "$here"/systemd/nri-container-runtime.service >"$work/output" ||
      { tail -1 "$work/output"; return 1; }
  fi
  # The paths of the sockets are those that nrid and the wrapper use.
  [ "$(values ListenStream | sort | sed 's,/run/nri-container-runtime/,,' | tr '\n' ' ')" = \
    'control.sock nri.sock plugins/nri.sock ' ] || return 1
  [ "$(sed -n 's,^ListenStream=%t/nri-container-runtime/,,p' "$here"/systemd/user/*.socket | sort |
    tr '\n' ' ')" = 'control.sock nri.sock plugins/nri.sock ' ]
}

step() { echo "-- $1"; shift; "$@"; }
if have shellcheck; then
  step 'scripts' find "$here" \( -name '*.sh' -o -path '*/packages/scripts/*' \) \
    -exec shellcheck {} +
else
  skip 'scripts' 'no shellcheck'
fi
if have systemd-analyze; then step 'units' units; else skip 'units' 'no systemd-analyze'; fi
if have go; then
  # -count=1 disables Go's cache of test results, which ignores changes of the manifests.
  step 'manifests' go -C "$here/kubernetes/test" test -count=1 ./...
else
  skip 'manifests' 'no go toolchain'
fi
if [ "$(id -u)" = 0 ]; then
  step 'installer' "$here/kubernetes/installer/test.sh" "$programs"
else
  skip 'installer' 'not root'
fi
