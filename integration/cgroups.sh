#!/bin/sh
# cgroups.sh CMD ARGS...
#   Runs CMD where crun runs and hugepage limits work, and exits with its status. On a machine with hybrid cgroups (version 1 plus
#   a version 2 hierarchy that holds controllers) crun refuses to run, and runc cannot limit hugepages. There CMD gets a private
#   mount namespace in which those controllers are mounted as version 1; afterwards they are given back. Elsewhere, and
#   inside itself, it does nothing but run CMD. Several may run at once: the last one gives the controllers back.
#   Whatever CMD leaves running stays in that namespace and keeps the controllers: an nrid that it starts must be stopped by it.
set -u
case ${1:-} in '' | -*) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;; esac
PATH=${PATH:-}:/usr/sbin:/usr/bin:/sbin:/bin
root=/sys/fs/cgroup
unified=$root/unified/cgroup.controllers
lock=/run/nri-integration-cgroups

[ -e "$unified" ] && [ "$(id -u)" = 0 ] || exec "$@"
# 8 is held while the state is looked at or changed, 9 is held shared by each that runs a command; what was moved stands in its file.
exec 8>"$lock.change" 9<>"$lock"
flock -x 8
moved=$(cat "$lock" "$unified" | tr ' ' '\n' | sed '/^$/d' | sort -u | tr '\n' ' ')
moved=${moved% }
here=1
for c in $moved; do grep -q " $root/$c cgroup " /proc/self/mounts || here=; done
if [ -n "$here" ]; then # nothing to move, or it is done in this namespace
  exec 8>&- 9>&-
  exec "$@"
fi
flock -s 9
echo "$moved" >"$lock"
flock -u 8

# A hierarchy goes when it is unmounted while it has no directories, removed ones that the kernel has not finished with included:
# so mount, remove, unmount, until it is gone.
give_back() {
  n=0 held=$moved d=$(mktemp -d)
  while [ -n "$held" ] && [ $n -lt 50 ]; do
    [ $n = 0 ] || sleep 0.1
    n=$((n + 1)) left=
    for c in $held; do
      if ! grep -q "^$c[[:space:]]*0[[:space:]]" /proc/cgroups && mount -t cgroup -o "$c" "$c" "$d" 2>/dev/null; then
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
    echo "cgroups.sh: something still holds ${held% }, so cgroup v2 did not get it back" >&2
  else
    : >"$lock"
  fi
}

trap : INT TERM HUP # CMD gets them, and we clean up
# shellcheck disable=SC2016 # expanded there
unshare -m --propagation private sh -c '
root=$1 moved=$2
shift 2
for c in $moved; do
  mkdir -p "$root/$c"
  n=0 # a controller takes a moment to leave the other hierarchy
  until mount -t cgroup -o "$c" "$c" "$root/$c" 2>/dev/null; do
    n=$((n + 1))
    [ $n -lt 100 ] || { echo "cgroups.sh: cannot mount the controller $c as version 1" >&2; exit 125; }
    sleep 0.1
  done
done
exec "$@"' sh "$root" "$moved" "$@" 8>&- 9>&-
rc=$?
flock -x 8
if flock -n -x 9; then give_back; fi
exit $rc
