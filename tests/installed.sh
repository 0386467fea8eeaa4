#!/usr/bin/env bash
# Runs a command as on a machine where this product is installed and configured, and its nrid runs.
# No container can be created with that configuration, so that a test which uses it fails. Nothing
# outside is changed: /etc, /opt, /run and /usr are overlays in a mount namespace. Needs root.
#   installed.sh PROGRAMS COMMAND [ARGUMENT...]     PROGRAMS: directory of the programs to install
set -euo pipefail

if [ "${1:-}" != --inside ]; then
  [ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
  work=$(mktemp -d)
  trap 'rmdir "$work"' EXIT
  unshare --mount --propagation private "$0" --inside "$work" "$@" && status=0 || status=$?
  exit "$status"
fi
work=$2 programs=$(cd "$3" && pwd -P)
shift 3

mount -t tmpfs installed "$work"
mkdir "$work/run"
mount --bind /run "$work/run"
for dir in etc opt run usr; do
  mkdir "$work/$dir.upper" "$work/$dir.work"
  mount -t overlay installed "/$dir" \
    -o "lowerdir=/$dir,upperdir=$work/$dir.upper,workdir=$work/$dir.work"
done
# integration/cgroups.sh locks these files.
for lock in "$work"/run/nri-integration-*; do
  [ ! -f "$lock" ] || mount --bind "$lock" "/run/${lock##*/}"
done

# As in docs/quick-start.md.
install -D -t /usr/local/bin "$programs/nri-container-runtime" "$programs/nrictl"
install -D -t /usr/libexec/nri-container-runtime "$programs/nrid" "$programs/nri-oci-hook"
mkdir -p /etc/docker
nrictl install docker --default >/dev/null

# A runtime and a required plugin that are missing, and a plugin that ends at once.
mkdir -p /etc/nri-container-runtime /opt/nri/plugins /opt/installed
printf '#!/bin/sh\nexit 1\n' | install -m 755 /dev/stdin /opt/installed/00-installed
cp /opt/installed/00-installed /opt/nri/plugins
cat >/etc/nri-container-runtime/config.toml <<END
plugin_path = "/opt/installed"
[runtime]
path = "/installed/runtime"
[log]
level = "error"
[[plugin]]
match = "00-absent"
required = true
END
chmod 644 /etc/nri-container-runtime/config.toml
/usr/libexec/nri-container-runtime/nrid 2>"$work/log" &
nrid=$!
for ((n = 0; n < 200; n++)); do
  ! nrictl status >"$work/status" 2>&1 || break
  sleep 0.1
done
head -1 "$work/status"
"$@" && status=0 || status=$?
nrictl status >"$work/status" || { cat "$work/status"; status=1; }
grep -qw "$nrid" "$work/status" || {
  echo 'installed.sh: a test ended the installed nrid' >&2
  status=1
}
kill "$nrid"
wait "$nrid" || true
exit "$status"
