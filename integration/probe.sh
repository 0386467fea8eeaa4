#!/bin/sh
# probe.sh [ARGS...]: runs in a container and prints its properties, one line `name=value` each.
# Resources have the names of their cgroup v1 or v2 files; files that do not exist are omitted. If
# the first argument is `wait`, the script then waits for SIGTERM.
i=0
for a in "$0" "$@"; do echo "args.$i=$a"; i=$((i + 1)); done
env | sed 's/^/env./'
cd /sys/fs/cgroup || exit 1
for f in cpuset.cpus cpuset.mems cpu.shares cpu.weight cpu.cfs_quota_us cpu.cfs_period_us cpu.max \
  memory.limit_in_bytes memory.max memory.memsw.limit_in_bytes memory.swap.max \
  memory.soft_limit_in_bytes memory.low memory.high pids.max hugetlb.2MB.limit_in_bytes \
  hugetlb.2MB.max hugetlb.1GB.limit_in_bytes hugetlb.1GB.max; do
  for p in "$f" ./*/"$f"; do
    if [ -e "$p" ]; then echo "$f=$(cat "$p")"; break; fi
  done
done
# shellcheck disable=SC3045 # the ulimit of busybox has -S and -H
for r in n:nofile u:nproc c:core s:stack; do
  echo "rlimit.${r#*:}=$(ulimit -S "-${r%%:*}") $(ulimit -H "-${r%%:*}")"
done
while read -r _ dest type options _; do echo "mount.$dest=$type $options"; done </proc/self/mounts
for d in /dev/*; do
  if [ -c "$d" ]; then t=c; elif [ -b "$d" ]; then t=b; else continue; fi
  [ ! -L "$d" ] || continue
  echo "device.$d=$t $(stat -c '%t:%T %a' "$d")"
done
if [ "${1:-}" = wait ]; then
  echo ready=1
  trap 'exit 0' TERM
  while :; do sleep 1 & wait $!; done
fi
