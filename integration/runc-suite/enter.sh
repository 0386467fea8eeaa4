#!/bin/bash
# enter.sh NAME CMD ARGS...
#   Runs CMD in private namespaces (pid, mount, network, cgroup) and in cgroups below /NAME of the
#   host. Exits with the status of CMD, or with 120 if a cgroup cannot be removed. CMD is process 1
#   of the pid namespace, so all processes end with it.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
root=/sys/fs/cgroup
name=$1
shift
export NRI_SUITE_MOUNTS=

places=()
while read -r point type options; do
  places+=("$point/$name")
  NRI_SUITE_MOUNTS+="$point $type $options"$'\n'
done < <(gawk -v root="$root" '{
    for (i = 6; $i != "-"; i++);
    if ($(i + 1) ~ /^cgroup2?$/ && $4 == "/" && index($5, root) == 1) print $5, $(i + 1), $(i + 3)
  }' /proc/self/mountinfo | sort -u -k1,1)
[ ${#places[@]} -gt 0 ] || { echo 'enter.sh: no cgroup hierarchies' >&2; exit 120; }

child=
rc=0
enabled=() # controllers of cgroup v2 that this script enabled for children of the root
end() {
  trap '' INT TERM HUP
  local n place c
  for ((n = 0; n < 100; n++)); do
    for place in "${places[@]}"; do
      # Thaws frozen processes, which cannot be killed.
      find "$place" -name freezer.state -exec sh -c 'echo THAWED >"$1"' sh {} \; \
        -o -name cgroup.freeze -exec sh -c 'echo 0 >"$1"' sh {} \; 2>/dev/null
    done
    [ -z "$child" ] || kill -0 "$child" 2>/dev/null || child=
    if [ -z "$child" ]; then
      find "${places[@]}" -depth -type d -exec rmdir {} + 2>/dev/null
      compgen -G "$root/*/$name" >/dev/null || [ -e "$root/$name" ] || break
    fi
    sleep 0.1
  done
  for c in "${enabled[@]}"; do echo "-$c" >$root/cgroup.subtree_control; done
  for place in "${places[@]}"; do
    [ ! -e "$place" ] || { echo "enter.sh: cannot remove $place" >&2; rc=120; }
  done
}

trap '[ -z "$child" ] || kill -KILL $child; end; exit 143' INT TERM HUP
for place in "${places[@]}"; do
  mkdir "$place" || { end; exit 120; }
  parent=${place%/*}
  if [ -e "$parent/cpuset.cpus" ]; then
    cat "$parent/cpuset.cpus" >"$place/cpuset.cpus"
    cat "$parent/cpuset.mems" >"$place/cpuset.mems"
  fi
done
if [ -e $root/cgroup.controllers ]; then
  read -ra controllers <$root/cgroup.controllers
  for c in "${controllers[@]}"; do
    grep -qw "$c" $root/cgroup.subtree_control ||
      { echo "+$c" >$root/cgroup.subtree_control && enabled+=("$c"); } 2>/dev/null
  done
  mkdir "$root/$name/init" # a cgroup with controllers for children must not have processes
fi

# shellcheck disable=SC2016 # the inner shell expands
NRI_SUITE_PLACES=${places[*]} setsid sh -c '
for p in $NRI_SUITE_PLACES; do echo $$ >"$p/cgroup.procs" || exit 120; done
unset NRI_SUITE_PLACES
exec unshare -C sh -c "[ ! -e \$0 ] || echo \$\$ >\$0 || exit 120
exec unshare -m -n -p -f --kill-child --mount-proc --propagation private \"\$@\"" "$0" "$@"
' "$root/$name/init/cgroup.procs" "$@" &
child=$!
{ wait $child; } 2>/dev/null # hides the shell's message on a killed child
rc=$?
end
exit $rc
