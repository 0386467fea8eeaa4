#!/bin/bash
# test.sh PROGRAMS
#   Tests the units on a disposable machine with systemd as process 1: installs them, and nrid and
#   nrictl of the directory PROGRAMS (target/debug), where a package does, and checks their
#   behaviour. Needs root, and takes about 10 seconds.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[ "$(cat /proc/1/comm)" = systemd ] || { echo 'test.sh: systemd is not the first process here' >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd -P)
state=/run/nri-container-runtime
unit=nri-container-runtime
fail() {
  echo "FAILED: $*" >&2
  systemctl status --no-pager --lines=20 $unit.service $unit.socket >&2 || true
  exit 1
}
step() { echo "-- $*"; }
# until_true COMMAND...: repeats the command until it succeeds
until_true() {
  for _ in $(seq 200); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.05
  done
  fail "not true within 10 s: $*"
}
is() { [ "$(systemctl show -P "$2" "$unit.$1")" = "$3" ]; }
# pid: prints the process id of nrid, the first one in its status
pid() { nrictl status --json | grep -o '"pid":[0-9]\+' | sed -n '1s,.*:,,p'; }
inodes() { stat -c '%n %i %a' $state $state/*.sock; }

install -D -t /usr/bin "$1/nrictl"
install -D -t /usr/libexec/$unit "$1/nrid"
install -m 644 -D -t /etc/systemd/system "$here"/$unit.{service,socket}
mkdir -p /opt/nri/plugins /etc/$unit
# A plugin that stays, to see what becomes of it.
printf '#!/bin/sh\nexec sleep 1000\n' >/opt/nri/plugins/10-stays
chmod 755 /opt/nri/plugins/10-stays
# The plugin never registers; the short timeout makes nrid ready soon.
echo 'plugin_registration_timeout = "1s"' >/etc/$unit/config.toml
systemctl daemon-reload

step 'an nrid that a wrapper started stops when the sockets are activated'
nrictl start
old=$(pid)
[ -e "/proc/$old/exe" ] || fail 'nrid does not run'
systemctl start $unit.socket
until_true [ ! -e "/proc/$old" ]
is service ActiveState inactive || fail 'the service was started without a connection'
before=$(inodes)
grep -q ' 700$' <<<"$before" || fail "mode of the directory: $before"
[ "$(grep -c ' 600$' <<<"$before")" = 2 ] || fail "mode of the sockets: $before"

step 'the first connection starts nrid in the mount namespace of the host'
first=$(pid)
[ "$(readlink "/proc/$first/ns/mnt")" = "$(readlink /proc/1/ns/mnt)" ] || fail 'nrid has a private mount namespace'
is service MainPID "$first" || fail 'not the unit'
until_true is service ActiveState active
grep -q '^NoNewPrivs:.0' "/proc/$first/status" || fail 'no new privileges'
grep -q '^Seccomp:.2' "/proc/$first/status" || fail 'no system call filter'

step 'nrictl start keeps a running nrid and its sockets'
nrictl start
[ "$(pid)" = "$first" ] || fail 'another one'
[ "$(inodes)" = "$before" ] || fail 'other sockets'

step 'a stop, a crash and a restart keep the sockets, and nrid is started again'
nrictl stop
until_true is service ActiveState inactive
/usr/libexec/$unit/nrid --background | grep -qx ready ||
  fail 'nrid --background does not print ready while the unit runs'
second=$(pid)
[ "$second" != "$first" ] || fail 'the same process'
until_true is service ActiveState active
kill -KILL "$second"
until_true is service NRestarts 1
until_true is service ActiveState active
systemctl restart $unit.service
[ "$(inodes)" = "$before" ] || fail 'other sockets'

step 'a reload and nrictl restart keep the process and the sockets'
main=$(pid)
systemctl reload $unit.service
printf '#!/bin/sh\nexec sleep 1000\n' >/opt/nri/plugins/20-new
chmod 755 /opt/nri/plugins/20-new
nrictl reload | grep -q '^20-new .*failed: did not register' ||
  fail 'the new plugin was not launched'
echo 'nonsense = ' >/etc/$unit/config.toml
! systemctl reload $unit.service 2>/dev/null || fail 'an invalid configuration was loaded'
echo 'plugin_registration_timeout = "1s"' >/etc/$unit/config.toml
install -D -t /usr/libexec/$unit "$1/nrid"
nrictl restart | grep -qx "nrid .* (pid $main)" || fail 'not the same process'
is service MainPID "$main" || fail 'not the unit'
is service ActiveState active || fail 'not active'
[ "$(inodes)" = "$before" ] || fail 'other sockets'

step 'a stop leaves no process'
systemctl stop $unit.service
[ -z "$(cat /sys/fs/cgroup/system.slice/$unit.service/cgroup.procs 2>/dev/null)" ] ||
  fail 'processes are left'
journalctl --no-pager -q -u $unit.service 2>/dev/null | grep -i 'left-over\|timed out' &&
  fail 'systemd had to kill processes'

step 'with an invalid configuration the sockets fail, and callers get the reason'
echo 'nonsense = ' >/etc/$unit/config.toml
nrictl --config /dev/null --state-dir $state status >/dev/null 2>&1 || true
until_true is socket ActiveState failed
[ ! -e $state/control.sock ] || fail 'a dead socket stays'
said=$(/usr/libexec/$unit/nrid --background)
grep -q config.toml <<<"$said" || fail "said: $said"
rm /etc/$unit/config.toml
systemctl reset-failed $unit.service $unit.socket
nrictl start
systemctl start $unit.socket
pid >/dev/null
is service MainPID "$(pid)" || fail 'not the unit'
systemctl stop $unit.socket $unit.service
echo 'passed'
