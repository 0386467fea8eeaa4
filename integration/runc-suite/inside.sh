#!/bin/bash
# inside.sh STAGE WORK MODE RUNC TAP: process 1 of the namespaces that enter.sh makes. Runs the
# tests of FILES with names that match FILTER, and writes the output of bats to TAP, with the line
# `# FILE name` before each file.
set -uo pipefail
stage=$1 work=$2/$3 mode=$3 runc=$4 tap=$5
root=/sys/fs/cgroup
mkdir -p "$work"/{tmp,plugins,conf.d} || exit 120
chmod a+x "$work" "$work/tmp"

# Mounts the cgroup hierarchies of the host again, in the cgroup namespace. Symbolic links are names
# of controllers that share a hierarchy.
links=$(find $root -maxdepth 1 -type l -printf '%f %l\n')
umount -R $root || exit 120
if [ "$(printf %s "$NRI_SUITE_MOUNTS" | cut -d' ' -f1)" = $root ]; then
  mount -t cgroup2 cgroup2 $root || exit 120
  read -ra controllers <$root/cgroup.controllers
  for c in "${controllers[@]}"; do echo "+$c" >$root/cgroup.subtree_control || exit 120; done
else
  mount -t tmpfs -o mode=755 tmpfs $root || exit 120
  while read -r point type options; do
    mkdir -p "$point"
    case $type in
      cgroup2) mount -t cgroup2 cgroup2 "$point" ;;
      *)
        options=$(echo "$options" | tr ',' '\n' | grep -v -e '^rw$' -e '^release_agent=' |
          paste -sd,)
        mount -t cgroup -o "$options" cgroup "$point"
        ;;
    esac || exit 120
  done < <(printf %s "$NRI_SUITE_MOUNTS")
  while read -r name to; do [ -z "$name" ] || ln -s "$to" "$root/$name"; done <<<"$links"
fi
unset NRI_SUITE_MOUNTS
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
ip link set lo up

export TMPDIR=$work/tmp
if [ "$mode" = bare ]; then
  export RUNC=$runc
else
  export RUNC=$stage/bin/runc NRI_CONTAINER_RUNTIME_PATH=$runc
  export NRI_CONTAINER_RUNTIME_CONFIG=$work/config.toml
  cat >"$work/config.toml" <<C
plugin_request_timeout = "20s"
state_dir = "$work/state"
plugin_path = "$work/plugins"
plugin_config_path = "$work/conf.d"
socket_path = ""
[log]
file = "$work/nrid.log"
C
  if [ "$mode" = plugin ]; then
    cp "$stage/bin/adjust" "$work/plugins/10-adjust"
    printf 'log = "%s/events"\n[create]\nannotations = { set = { "org.example.seen" = "yes" } }\n' \
      "$work" >"$work/conf.d/10-adjust.conf"
  fi
  "$stage/bin/nrictl" start || exit 120
fi

# Some tests need a terminal. Its input is a fifo that stays empty.
rm -f "$work/in"
mkfifo "$work/in"
exec 9<>"$work/in"
cd "$stage/src/tests/integration" || exit 120
filter=
[ -z "${FILTER:-}" ] || filter="-f $(printf %q "$FILTER")"
# run_file FILE: runs the tests of a file. When all tests have ended, processes that they left are
# killed with the session, because bats waits for all processes that have its output open.
run_file() {
  local limit=${TEST_TIMEOUT:-60} output=$work/output script lines=0 now unchanged=0
  # The timer of bats is a child of the test, so a test that waits for all its children would hang.
  if grep -Eq '^[[:space:]]*wait([[:space:]]*#.*)?$' "$1"; then
    unset BATS_TEST_TIMEOUT
  else
    export BATS_TEST_TIMEOUT=$limit
  fi
  script -qec "stty cols 200; bats $filter --tap $1" /dev/null <&9 >"$output" 2>&1 &
  script=$!
  while kill -0 $script 2>/dev/null; do
    sleep 0.5
    now=$(wc -l <"$output")
    if [ "$now" = "$lines" ]; then unchanged=$((unchanged + 1)); else unchanged=0 lines=$now; fi
    # Without new output for 5 times the limit of a test, or for 5 s after the last test.
    if [ $unchanged -ge $((10 * limit)) ] || { [ $unchanged -ge 10 ] && all_ended "$output"; }; then
      pkill -KILL -s "$(pgrep -P $script)" 2>/dev/null
    fi
  done
  wait $script
  echo "# FILE $1"
  tr -d '\r' <"$output"
}
# all_ended TAP: whether all tests of the plan have ended
all_ended() {
  local plan
  plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$1")
  [ -n "$plan" ] && [ "$(grep -Ec '^(not )?ok ' "$1")" -ge "$plan" ]
}
for file in ${FILES:-*.bats}; do run_file "$file"; done >"$tap"
if [ "$mode" != bare ]; then
  "$stage/bin/nrictl" status >"$work/status" 2>&1
  "$stage/bin/nrictl" stop || exit 120
fi
exit 0
