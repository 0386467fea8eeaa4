#!/bin/sh
# cgroups.sh CMD ARGS...
#   Runs CMD and exits with its status. A host is hybrid if it has cgroup v1 and a v2 hierarchy with
#   controllers: there crun refuses to run, and runc cannot limit hugepages. On a hybrid host, CMD
#   runs in a private mount namespace in which the controllers of v2 are mounted as v1; afterwards
#   they are returned to v2. On other hosts, and in a nested call, the script only runs CMD. Several
#   calls may run at once: the last one returns the controllers. Processes that outlive CMD keep the
#   namespace and the controllers, so CMD must stop its nrid.
set -u
case ${1:-} in '' | -*) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;; esac
PATH=${PATH:-}:/usr/sbin:/usr/bin:/sbin:/bin
root=/sys/fs/cgroup
unified=$root/unified/cgroup.controllers
lock=/run/nri-integration-cgroups

[ -e "$unified" ] && [ "$(id -u)" = 0 ] || exec "$@"
# Lock 8 protects reading and changing the state. Each script that runs a command holds lock 9
# shared; its file lists the moved controllers.
exec 8>"$lock.change" 9<>"$lock"
flock -x 8
moved=$(cat "$lock" "$unified" | tr ' ' '\n' | sed '/^$/d' | sort -u | tr '\n' ' ')
moved=${moved% }
is_v1_here=1
for c in $moved; do grep -q " $root/$c cgroup " /proc/self/mounts || is_v1_here=; done
if [ -n "$is_v1_here" ]; then # nothing to move, or moved in this namespace already
  exec 8>&- 9>&-
  exec "$@"
fi
flock -s 9
echo "$moved" >"$lock"
flock -u 8

# Returns the controllers to cgroup v2. The kernel drops a v1 hierarchy when it is unmounted and has
# no child cgroups. It releases removed child cgroups with a delay, so the function mounts the
# hierarchy, removes its cgroups and unmounts it, up to 50 times, until the controllers are in v2.
return_controllers() {
  n=0 held=$moved d=$(mktemp -d)
  while [ -n "$held" ] && [ $n -lt 50 ]; do
    [ $n = 0 ] || sleep 0.1
    n=$((n + 1)) left=
    for c in $held; do
      if ! grep -q "^${c}[[:space:]]*0[[:space:]]" /proc/cgroups &&
        mount -t cgroup -o "$c" "$c" "$d" 2>/dev/null; then
        find "$d" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
        umount "$d"
      fi
      grep -qw "$c" "$unified" || left="$left$c "
    done
    held=$left
  done
  rmdir "$d"
  for c in $moved; do rmdir "$root/$c" 2>/dev/null; done
  if [ -n "$held" ]; then
    echo "cgroups.sh: ${held% } still in use on cgroup v1, not returned to v2" >&2
  else
    : >"$lock"
  fi
}

trap : INT TERM HUP # CMD receives the signal; the script continues, to clean up
# shellcheck disable=SC2016 # the inner shell expands
unshare -m --propagation private sh -c '
root=$1 moved=$2
shift 2
for c in $moved; do
  mkdir -p "$root/$c"
  n=0 # a controller leaves the v2 hierarchy with a delay
  until mount -t cgroup -o "$c" "$c" "$root/$c" 2>/dev/null; do
    n=$((n + 1))
    [ $n -lt 100 ] || { echo "cgroups.sh: cannot mount controller $c as cgroup v1" >&2; exit 125; }
    sleep 0.1
  done
done
exec "$@"' sh "$root" "$moved" "$@" 8>&- 9>&-
rc=$?
flock -x 8
if flock -n -x 9; then return_controllers; fi
exit $rc
