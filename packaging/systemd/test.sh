#!/bin/bash
# test.sh PROGRAMS
#   Tests the units on a disposable machine with systemd as process 1: installs them, and nrid and
#   nrictl of the directory PROGRAMS (target/debug), where a package does, and checks their
#   behaviour. Needs root, and takes about 10 seconds.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[ "$(cat /proc/1/comm)" = systemd ] || {
  echo 'test.sh: process 1 of this machine is not systemd' >&2
  exit 1
}
here=$(cd "$(dirname "$0")" && pwd -P)
state=/run/nri-container-runtime
unit=nri-container-runtime
fail() {
  echo "FAILED: $*" >&2
  systemctl status --no-pager --lines=20 $unit.service $unit.socket >&2 || true
  exit 1
}
step() { echo "-- $*"; }
# wait_until COMMAND...: repeats the command until it succeeds
wait_until() {
  for _ in $(seq 200); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.05
  done
  fail "not true within 10 s: $*"
}
# has UNIT PROPERTY VALUE: whether the service or the socket has this property
has() { [ "$(systemctl show -P "$2" "$unit.$1")" = "$3" ]; }
# pid: prints the process id of nrid, the first one in its status
pid() { nrictl status --json | grep -o '"pid":[0-9]\+' | sed -n '1s,.*:,,p'; }
inodes() { stat -c '%n %i %a' $state $state/*.sock; }

install -D -t /usr/bin "$1/nrictl"
install -D -t /usr/libexec/$unit "$1/nrid"
install -m 644 -D -t /etc/systemd/system "$here"/$unit.{service,socket}
mkdir -p /opt/nri/plugins /etc/$unit
# A plugin that never exits by itself, to check that the unit stops it.
# It has a child in a session of its own, whose number it writes.
rm -f /run/10-stays
printf '#!/bin/sh\nsetsid sleep 1000 & echo $! >>/run/10-stays\nexec sleep 1000\n' \
  >/opt/nri/plugins/10-stays
chmod 755 /opt/nri/plugins/10-stays
# The plugin never registers; the short timeout makes nrid ready soon.
echo 'plugin_registration_timeout = "1s"' >/etc/$unit/config.toml
systemctl daemon-reload

step 'an nrid that a wrapper started stops when the sockets are activated'
nrictl start
old=$(pid)
[ -e "/proc/$old/exe" ] || fail 'nrid does not run'
systemctl start $unit.socket
wait_until [ ! -e "/proc/$old" ]
# Without a cgroup of its own, the plugin left its children behind.
xargs kill </run/10-stays || true
rm /run/10-stays
has service ActiveState inactive || fail 'the service was started without a connection'
before=$(inodes)
grep -q ' 700$' <<<"$before" || fail "mode of the directory: $before"
[ "$(grep -c ' 600$' <<<"$before")" = 2 ] || fail "mode of the sockets: $before"

step 'the first connection starts nrid in the mount namespace of the host'
first=$(pid)
[ "$(readlink "/proc/$first/ns/mnt")" = "$(readlink /proc/1/ns/mnt)" ] ||
  fail 'nrid has a private mount namespace'
has service MainPID "$first" || fail 'nrid is not the process of the unit'
wait_until has service ActiveState active
grep -q '^NoNewPrivs:.0' "/proc/$first/status" || fail 'nrid has no_new_privs set'
grep -q '^Seccomp:.2' "/proc/$first/status" || fail 'nrid has no system call filter'

step 'nrid and each launched plugin have cgroups of their own, and all processes of a plugin end'
cgroup=/sys/fs/cgroup/system.slice/$unit.service
[ "$(cat $cgroup/nrid/cgroup.procs)" = "$first" ] || fail 'nrid has no cgroup of its own'
# The plugin does not register, and so is ended and launched again, with growing pauses.
in_own_cgroup() {
  grep -qs "^$(tail -1 /run/10-stays)$" $cgroup/plugin-10-stays.*/cgroup.procs &&
    cat $cgroup/plugin-10-stays.*/memory.current
}
wait_until in_own_cgroup
left() { while read -r pid; do [ ! -e "/proc/$pid" ] || echo "$pid"; done </run/10-stays; }
none_left() { [ -z "$(left)" ]; }
wait_until none_left

step 'nrictl start keeps a running nrid and its sockets'
nrictl start
[ "$(pid)" = "$first" ] || fail 'nrid is another process'
[ "$(inodes)" = "$before" ] || fail 'the sockets were replaced'

step 'a stop, a crash and a restart keep the sockets, and nrid is started again'
nrictl stop
wait_until has service ActiveState inactive
/usr/libexec/$unit/nrid --background | grep -qx ready ||
  fail 'nrid --background does not print ready while the unit runs'
second=$(pid)
[ "$second" != "$first" ] || fail 'nrid was not stopped'
wait_until has service ActiveState active
kill -KILL "$second"
wait_until has service NRestarts 1
wait_until has service ActiveState active
systemctl restart $unit.service
[ "$(inodes)" = "$before" ] || fail 'the sockets were replaced'

step 'a reload and nrictl restart keep the process and the sockets'
main=$(pid)
# A reload that launches a plugin in vain has the exit code 4.
systemctl reload $unit.service 2>/dev/null ||
  systemctl show -P ExecReload $unit.service | grep -q 'status=4' ||
  fail 'the configuration was not loaded again'
printf '#!/bin/sh\nexec sleep 1000\n' >/opt/nri/plugins/20-new
chmod 755 /opt/nri/plugins/20-new
output=$(nrictl reload) || [ $? = 4 ] || fail 'the reload failed'
grep -q '^20-new .*failed: did not register' <<<"$output" || fail 'the new plugin was not launched'
echo 'nonsense = ' >/etc/$unit/config.toml
! systemctl reload $unit.service 2>/dev/null || fail 'an invalid configuration was loaded'
echo 'plugin_registration_timeout = "1s"' >/etc/$unit/config.toml
install -D -t /usr/libexec/$unit "$1/nrid"
nrictl restart | grep -qx "nrid .* (pid $main)" || fail 'nrid is another process'
has service MainPID "$main" || fail 'nrid is not the process of the unit'
has service ActiveState active || fail 'the service is not active'
[ "$(inodes)" = "$before" ] || fail 'the sockets were replaced'

step 'a stop leaves no process'
systemctl stop $unit.service
[ -z "$(find /sys/fs/cgroup/system.slice/$unit.service -name cgroup.procs -exec cat {} + \
  2>/dev/null)" ] ||
  fail 'processes of the service still run'
journalctl --no-pager -q -u $unit.service 2>/dev/null | grep -i 'left-over\|timed out' &&
  fail 'systemd had to kill processes'

step 'with an invalid configuration the sockets fail, and callers get the reason'
echo 'nonsense = ' >/etc/$unit/config.toml
nrictl --config /dev/null --state-dir $state status >/dev/null 2>&1 || true
wait_until has socket ActiveState failed
[ ! -e $state/control.sock ] || fail 'the control socket still exists'
output=$(/usr/libexec/$unit/nrid --background)
grep -q config.toml <<<"$output" || fail "the reason is not printed: $output"
rm /etc/$unit/config.toml
systemctl reset-failed $unit.service $unit.socket
nrictl start
systemctl start $unit.socket
pid >/dev/null
has service MainPID "$(pid)" || fail 'nrid is not the process of the unit'
systemctl stop $unit.socket $unit.service
echo 'passed'
